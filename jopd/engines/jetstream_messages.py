"""What travels through JetStream's queues: prompts, prefixes, blocks and samples."""

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from jopd.engines.base import Sampling
from jopd.engines.decode_state import Orders
from jopd.engines.jetstream_api import ReturnSample, engine_api
from jopd.engines.jetstream_settings import STOP_IDS_WIDTH
from jopd.types import HostBools, HostInts


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A request as the engine sees it; travels where JetStream carries padded tokens.

    Attributes:
      tokens: [P] exact prompt ids.
      sampling: how the response is sampled and ended.
      seed: of its sampling.
    """

    tokens: HostInts
    sampling: Sampling
    seed: int

    def orders(self, version: int) -> Orders:
        """What the programs need of it, computed by weights of `version`."""
        stop_ids = np.full(STOP_IDS_WIDTH, -1, np.int32)
        stop_ids[: len(self.sampling.stop_ids)] = self.sampling.stop_ids
        return Orders(
            seed=np.array(divmod(self.seed % 2**64, 2**32), np.uint32),
            temperature=np.float32(self.sampling.temperature),
            max_tokens=np.int32(self.sampling.max_tokens),
            stop_ids=stop_ids,
            version=np.int32(version),
        )


@dataclass(frozen=True, kw_only=True)
class Prefix:
    """What prefill hands to insert; JetStream deletes its arrays after the insert.

    Attributes:
      cache: [n, 1, bucket, K, H] keys and values of the prompt, or None when a row of the decode
        state already holds its beginning and insert computes only the rest.
      drawn: the first token, or None likewise.
      prompt: the request.
      version: of the weights that computed it.
    """

    cache: Any
    drawn: Any
    prompt: Prompt
    version: int


jax.tree_util.register_dataclass(
    Prefix, data_fields=["cache", "drawn"], meta_fields=["prompt", "version"]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """The tokens of one generate call, on the host, by slot.

    Attributes:
      tokens: [slots, decode_block] ids; the first `counts` of a line are delivered.
      logprobs: [slots, decode_block] their log-probs at temperature 1.
      counts: [slots] delivered tokens.
      finished: [slots] True where no token follows.
      versions: [slots] policy version of the turn.
    """

    tokens: np.ndarray
    logprobs: np.ndarray
    counts: np.ndarray
    finished: HostBools
    versions: np.ndarray

    @classmethod
    def read(cls, result: engine_api.ResultTokens) -> "Block":
        """Waits for the columns that `decode_programs.decode` wrote."""
        data = np.asarray(result.data)
        width = result.tokens_idx[1]
        return cls(
            tokens=data[:, :width],
            logprobs=data[:, 2 * width : 3 * width].view(np.float32),
            counts=data[:, width : 2 * width].sum(axis=1),
            finished=data[:, 3 * width + 1] != 0,
            versions=data[:, 3 * width + 2],
        )

    def sample(self, slot: int) -> "TokenSample":
        """The part of one slot, as JetStream returns samples."""
        count = self.counts[slot]
        return TokenSample(
            text=[],
            token_ids=self.tokens[slot, :count].tolist(),
            logprobs=self.logprobs[slot, :count],
            policy_version=int(self.versions[slot]),
        )


@dataclass
class TokenSample(ReturnSample):
    """JetStream's sample of one block, with what its clients have no field for.

    Attributes:
      logprobs: of `token_ids`, in nats.
      policy_version: of the weights that generated them.
    """

    logprobs: np.ndarray
    policy_version: int

"""Our decoder as a `jetstream.engine.engine_api.Engine`.

JetStream's prefill thread calls `prefill`, its generate thread `insert` and `generate`; the
detokenize thread tells what ended (`release`). Only the generate thread touches the decode state.
JetStream numbers slots; the engine decides which row of the cache stands behind a slot, so that a
turn can go on in the row that still holds its history.
"""

import contextlib
import itertools
import threading
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding
from jaxtyping import Int

from jopd.engines.base import Sampling
from jopd.engines.compiled_programs import make_programs
from jopd.engines.decode_state import DecodeState
from jopd.engines.jetstream_api import engine_api, tokenizer_api
from jopd.engines.jetstream_messages import Prefix, Prompt
from jopd.engines.jetstream_settings import JetStreamSettings
from jopd.engines.live_weights import LiveWeights
from jopd.engines.prefix_index import Match, PrefixIndex
from jopd.models.architectures import DecoderConfig
from jopd.types import HostInts, WeightSnapshot

_PLAIN_SAMPLING = Sampling(temperature=1.0, max_tokens=1, stop_ids=())


@dataclass(frozen=True, slots=True)
class _Tenant:
    """Who is in a slot: its row, and the prompt whose keys and values lie there."""

    row: int
    prompt: Prompt


class JetStreamEngine(engine_api.Engine):
    """Prefill, insert and generate over one decode state.

    Args:
      config: the decoder.
      snapshot: the first weights; without a mesh, everything lies on their device.
      settings: sizes and types.
      mesh: with axes "fsdp" and "tensor", or None for one device.
      tokenizer: for requests of JetStream's own servers that bring text.
      default_sampling: temperature and stop ids of requests that bring none.

    Attributes:
      weights: the live weights.
      prefilled_tokens: prompt tokens computed.
      reused_tokens: prompt tokens whose keys and values were found instead.
    """

    def __init__(
        self,
        config: DecoderConfig,
        snapshot: WeightSnapshot,
        settings: JetStreamSettings,
        *,
        mesh: Mesh | None = None,
        tokenizer: tokenizer_api.Tokenizer | None = None,
        default_sampling: Sampling = _PLAIN_SAMPLING,
    ):
        self.weights = LiveWeights(snapshot, dtype=settings.compute_dtype, mesh=mesh)
        self._settings = settings
        self._mesh = mesh
        self._tokenizer = tokenizer
        self._default_sampling = default_sampling
        self._plain_seeds = itertools.count()
        self._programs = make_programs(config, settings, mesh)
        self._compiled_before = self._programs.compiled()
        self._index = PrefixIndex(
            settings.slots, cost=settings.bucket, reuse=settings.reuse_prefixes
        )
        self._tenants: dict[int, _Tenant] = {}
        self._row_of_slot = np.arange(settings.slots, dtype=np.int32)
        self._wanted = np.zeros(settings.slots, bool)
        # Programs with collectives must reach all devices in one order.
        several = mesh is not None and mesh.size > 1
        self._launch = threading.Lock() if several else contextlib.nullcontext()
        self.prefilled_tokens = 0
        self.reused_tokens = 0

    @property
    def running(self) -> tuple[int, ...]:
        """Slots with a turn in them."""
        return tuple(self._tenants)

    @property
    def compilations(self) -> int:
        """Programs compiled since this engine was made."""
        return self._programs.compiled() - self._compiled_before

    def load_params(self) -> LiveWeights:
        """What JetStream takes as params: it reads them once, so later weights are put into it."""
        return self.weights

    def init_decode_state(self) -> DecodeState:
        """An empty state on the devices of the weights."""
        state = self._programs.init()
        return state if self._mesh is not None else jax.device_put(state, self.weights.device)

    def prefill(
        self,
        *,
        params: LiveWeights,
        existing_prefix: Any = None,
        padded_tokens: Any,
        true_length: int,
    ) -> Prefix:
        """Computes a prompt, unless a row of the decode state holds enough of it.

        Args:
          params: the live weights.
          existing_prefix: must be None: what may be reused is found by its tokens.
          padded_tokens: a `Prompt`, or padded ids from JetStream's own driver.
          true_length: real tokens when ids were given.
        """
        if existing_prefix is not None:
            raise ValueError("existing_prefix must be None: prefixes are found by their tokens")
        prompt = padded_tokens
        if not isinstance(prompt, Prompt):
            tokens = np.asarray(padded_tokens, np.int32)[:true_length]
            prompt = self.plain_prompt(tokens, max_tokens=self._settings.max_context)
        snapshot = params.current
        if self._index.match(prompt.tokens) is not None:
            return Prefix(cache=None, drawn=None, prompt=prompt, version=snapshot.version)
        return self._compute(prompt, snapshot)

    def insert(self, prefix: Prefix, decode_state: DecodeState, slot: int) -> DecodeState:
        """Begins a prefilled turn in a row of the cache and lets `slot` stand for that row.

        What prefill found may be gone by now, or of earlier weights: then the prompt is looked up
        again, and computed here if need be.
        """
        self.release(slot, np.zeros(0, np.int32))  # JetStream inserts into free slots only
        prompt, snapshot, match = prefix.prompt, self.weights.current, None
        if prefix.cache is None or prefix.version != snapshot.version:
            match = self._index.match(prompt.tokens)
            prefix = self._compute(prompt, snapshot) if match is None else prefix
        row = self._index.claim(prompt.tokens, match)
        if match is None:
            decode_state = self._insert_computed(prefix, decode_state, row)
        else:
            decode_state = self._resume(prompt, snapshot, decode_state, match, row)
        self._tenants[slot] = _Tenant(row, prompt)
        self._row_of_slot[slot] = row
        self._wanted[row] = True
        return decode_state

    def generate(
        self, params: LiveWeights, decode_state: DecodeState
    ) -> tuple[DecodeState, engine_api.ResultTokens]:
        """One block of decode steps; see `jetstream_messages.Block` for what it returns."""
        width = self._settings.decode_block
        with self._launch:
            decode_state, data = self._programs.decode(
                params.current.params, decode_state, self._row_of_slot.copy(), self._wanted.copy()
            )
        return decode_state, engine_api.ResultTokens(
            data=data,
            tokens_idx=(0, width),
            valid_idx=(width, 2 * width),
            length_idx=(3 * width, 3 * width + 1),
            samples_per_slot=1,
        )

    def release(self, slot: int, response: HostInts) -> None:
        """Ends the turn in `slot`, if there is one, and keeps what its row holds for later prompts.

        Args:
          slot: JetStream's slot.
          response: the tokens delivered so far; the last one was never computed.
        """
        tenant = self._tenants.pop(slot, None)
        if tenant is None:
            return
        self._wanted[tenant.row] = False
        self._index.release(tenant.row, np.concatenate([tenant.prompt.tokens, response[:-1]]))

    def swap(self, placed: WeightSnapshot) -> None:
        """Goes over to other weights and forgets all keys and values; no turn may be running.

        Args:
          placed: what `weights.place` returned.
        """
        self.weights.current = placed
        self._index.flush()

    def plain_prompt(self, tokens: HostInts, *, max_tokens: int) -> Prompt:
        """A request of default sampling; too long a prompt loses its beginning, as in JetStream."""
        kept = tokens[-self._settings.max_prompt :]
        room = self._settings.max_context - len(kept)
        sampling = replace(self._default_sampling, max_tokens=min(max_tokens, room))
        return Prompt(tokens=kept, sampling=sampling, seed=next(self._plain_seeds))

    def _compute(self, prompt: Prompt, snapshot: WeightSnapshot) -> Prefix:
        with self._launch:
            cache, drawn = self._programs.prefill(
                snapshot.params,
                self._padded(prompt.tokens),
                np.int32(len(prompt.tokens)),
                prompt.orders(snapshot.version),
            )
        return Prefix(cache=cache, drawn=drawn, prompt=prompt, version=snapshot.version)

    def _insert_computed(self, prefix: Prefix, state: DecodeState, row: int) -> DecodeState:
        self.prefilled_tokens += len(prefix.prompt.tokens)
        with self._launch:
            return self._programs.insert(
                state,
                prefix.cache,
                prefix.drawn,
                np.int32(row),
                np.int32(len(prefix.prompt.tokens)),
                prefix.prompt.orders(prefix.version),
            )

    def _resume(
        self,
        prompt: Prompt,
        snapshot: WeightSnapshot,
        state: DecodeState,
        match: Match,
        row: int,
    ) -> DecodeState:
        rest = prompt.tokens[match.length :]
        self.prefilled_tokens += len(rest)
        self.reused_tokens += match.length
        with self._launch:
            return self._programs.resume(
                snapshot.params,
                state,
                self._padded(rest),
                np.int32(len(rest)),
                np.int32(match.length),
                np.int32(match.row),
                np.int32(row),
                prompt.orders(snapshot.version),
            )

    def _padded(self, tokens: HostInts) -> Int[np.ndarray, " bucket"]:
        return np.pad(tokens, (0, self._settings.bucket(len(tokens)) - len(tokens)))

    def get_prefix_destination_sharding(self) -> Any:
        """Where a prefix must lie before its insert."""
        if self._mesh is not None:
            return NamedSharding(self._mesh, PartitionSpec())
        return SingleDeviceSharding(self.weights.device)

    def get_tokenizer(self) -> None:
        """No parameters: the tokenizer is an object, see `build_tokenizer`."""
        return None

    def build_tokenizer(self, metadata: None) -> tokenizer_api.Tokenizer | None:
        """The tokenizer the engine was given; None where only ids come and go."""
        del metadata
        return self._tokenizer

    @property
    def max_concurrent_decodes(self) -> int:
        """Slots."""
        return self._settings.slots

    @property
    def samples_per_slot(self) -> int:
        """One response per slot."""
        return 1

    @property
    def max_prefill_length(self) -> int:
        """Tokens of the longest prompt."""
        return self._settings.max_prompt

    @property
    def mesh(self) -> Mesh | None:
        """The engine's mesh; None on one device."""
        return self._mesh

    @property
    def colocated_cpus(self) -> None:
        """Not used."""
        return None

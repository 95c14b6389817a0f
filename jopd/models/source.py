"""Where a model comes from: a Hugging Face directory, a name on the hub, or random weights."""

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import jax
from huggingface_hub import snapshot_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

from jopd.models.architectures import DecoderConfig
from jopd.models.checkpoints import CheckpointError, save_pretrained
from jopd.models.decoder import init_params
from jopd.models.layers import INIT_STD
from jopd.models.tokenizer import build_word_tokenizer
from jopd.types import Params

_MAX_SHARD_BYTES = 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class ScratchModel:
    """A small model of a public architecture with random weights and a word-level tokenizer.

    Attributes:
      model_type: architecture, as Hugging Face names it.
      hidden_size: width.
      intermediate_size: width of the feed-forward layers.
      num_layers: layers.
      num_heads: query heads.
      num_kv_heads: key and value heads.
      head_dim: width of a head.
      max_positions: longest sequence.
      tie_embeddings: the output head is the embedding.
      seed: of the weights.
    """

    model_type: Literal["qwen2", "qwen3", "llama"]
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    max_positions: int
    tie_embeddings: bool
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """Where a model comes from.

    Attributes:
      checkpoint: a Hugging Face directory or a name on the hub; "" to start from scratch.
      scratch: the model to make where `checkpoint` is ""; else None.
    """

    checkpoint: str
    scratch: ScratchModel | None

    def __post_init__(self):
        """Refuses settings that name two sources or none."""
        if bool(self.checkpoint) == (self.scratch is not None):
            raise ValueError("give either a checkpoint or a scratch model, and not both")


def checkpoint_directory(settings: ModelSettings, scratch_directory: Path) -> Path:
    """A local Hugging Face directory of the model.

    Args:
      settings: where it comes from.
      scratch_directory: where a model from scratch was made with `make_scratch_model`.

    Raises:
      CheckpointError: it is neither a directory here nor a model that the hub gives.
    """
    if settings.scratch is not None:
        return scratch_directory
    local = Path(settings.checkpoint).expanduser()
    if local.is_dir():
        return local
    try:
        return Path(
            snapshot_download(
                settings.checkpoint, allow_patterns=["*.json", "*.safetensors", "*.txt", "*.jinja"]
            )
        )
    except (HFValidationError, HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        raise CheckpointError(
            f"checkpoint {settings.checkpoint!r} is no directory here, and the hub did not give a "
            f"model of that name ({type(error).__name__}). Give the path of a Hugging Face "
            "directory (config.json, *.safetensors, tokenizer files)."
        ) from error


def make_scratch_model(scratch: ScratchModel, words: Iterable[str], directory: Path) -> None:
    """Writes a Hugging Face directory with random weights and a tokenizer of the given words."""
    tokenizer_directory = directory.with_name(directory.name + "_tokenizer")
    tokenizer = build_word_tokenizer(words)
    tokenizer.save_pretrained(str(tokenizer_directory))
    fields = asdict(scratch)
    seed = fields.pop("seed")
    config = DecoderConfig(
        vocab_size=len(tokenizer),
        rope_theta=10_000.0,
        rope_scaling=None,
        rms_norm_eps=1e-6,
        qkv_bias=scratch.model_type == "qwen2",
        qk_norm=scratch.model_type == "qwen3",
        **fields,
    )
    save_pretrained(
        directory,
        _random_params(config, seed),
        config,
        tokenizer_dir=tokenizer_directory,
        generation_config=None,
        max_shard_bytes=_MAX_SHARD_BYTES,
    )


def _random_params(config: DecoderConfig, seed: int) -> Params:
    """Random weights with deviation 1 / sqrt(3 width).

    The 0.02 of `init_params` suits widths in the thousands; narrow models learn slowly from it.
    """
    factor = 1 / (math.sqrt(3 * config.hidden_size) * INIT_STD)

    def scaled(path: jax.tree_util.KeyPath, leaf: jax.Array) -> jax.Array:
        name = jax.tree_util.keystr(path[-1:], simple=True)
        return leaf * factor if name in ("kernel", "embedding") else leaf

    return jax.tree_util.tree_map_with_path(scaled, init_params(config, jax.random.key(seed)))

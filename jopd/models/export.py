"""Writes a trained student as a Hugging Face directory with a model card."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import AutoConfig, AutoTokenizer

from jopd.models.architectures import DecoderConfig
from jopd.models.checkpoint_files import CheckpointError, read_json
from jopd.models.checkpoints import save_pretrained
from jopd.models.tokenizer import Tokenizer
from jopd.types import Params

MAX_SHARD_BYTES = 4 * 2**30

_PROBE = "click[10.5 x-large] search[men's red shirt], price < $23.50\nBuy Now"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCard:
    """What a reader of the exported model must know.

    Attributes:
      name: of the exported model.
      base_model: the initial student.
      teachers: the frozen teachers, one or more.
      method: how it was trained.
      update: updates that the weights contain.
      success_rates: domain -> success rate in percent at that update; empty if not evaluated.
      command: what starts the same run.
    """

    name: str
    base_model: str
    teachers: tuple[str, ...]
    method: str
    update: int
    success_rates: dict[str, float]
    command: str


def export_model(
    params: Params,
    config: DecoderConfig,
    tokenizer_dir: Path,
    out: Path,
    card: ModelCard,
    *,
    base_dir: Path | None = None,
    dtype: Any = None,
    max_shard_bytes: int = MAX_SHARD_BYTES,
) -> None:
    """Writes a directory that transformers loads; it appears whole or not at all.

    `generation_config.json` names the tokenizer's stop ids, so that generation ends where the
    student learned to end it.

    Args:
      params: the student's parameters.
      config: its decoder.
      tokenizer_dir: Hugging Face directory with its tokenizer.
      out: does not exist, or is empty.
      card: content of README.md.
      base_dir: Hugging Face directory of the initial student; its config and generation settings
        are kept, and padding rows that its vocabulary lacks are cut off.
      dtype: type in the files; None keeps the type of the parameters.
      max_shard_bytes: size limit of a safetensors file.

    Raises:
      CheckpointError: the parts contradict each other, `out` is taken, or transformers would use
        another tokenizer with this model.
      OSError: the disk is full or cannot be written.
    """
    tokenizer = Tokenizer.load(tokenizer_dir)
    _check_transformers_agrees(tokenizer, tokenizer_dir, config)
    generation = {} if base_dir is None else _optional_json(base_dir / "generation_config.json")
    save_pretrained(
        out,
        params,
        config,
        tokenizer_dir=tokenizer_dir,
        generation_config=generation | {"eos_token_id": list(tokenizer.stop_ids)},
        max_shard_bytes=max_shard_bytes,
        base_config=None if base_dir is None else read_json(base_dir / "config.json"),
        dtype=dtype,
        documents={"README.md": render_card(card)},
    )


def render_card(card: ModelCard) -> str:
    """The model card in Markdown, with the fields that model hubs read at its head."""
    rates = [f"| {domain} | {rate:.1f} |" for domain, rate in sorted(card.success_rates.items())]
    results = ["| environment | success rate, % |", "|---|---|", *rates] if rates else ["Not run."]
    return "\n".join(
        [
            "---",
            f"base_model: {card.base_model}",
            "library_name: transformers",
            "pipeline_tag: text-generation",
            "tags:",
            "- on-policy-distillation",
            "- jopd",
            "---",
            "",
            f"# {card.name}",
            "",
            f"`{card.base_model}` after {card.update} updates of {card.method}, "
            f"taught by {', '.join(f'`{teacher}`' for teacher in card.teachers)}.",
            "",
            "## Evaluation",
            "",
            *results,
            "",
            "## Training",
            "",
            "```",
            card.command,
            "```",
            "",
        ]
    )


def _optional_json(path: Path) -> dict[str, Any]:
    return read_json(path) if path.is_file() else {}


def _check_transformers_agrees(
    tokenizer: Tokenizer, tokenizer_dir: Path, config: DecoderConfig
) -> None:
    """Refuses an export whose users would silently get other tokens.

    Transformers 5 chooses the tokenizer's class by the model's type, for some against the files.
    """
    theirs = AutoTokenizer.from_pretrained(
        str(tokenizer_dir), config=AutoConfig.for_model(config.model_type), local_files_only=True
    )
    ids = theirs.encode(_PROBE, add_special_tokens=False)
    if theirs.get_vocab() != tokenizer.token_ids or ids != tokenizer.encode(_PROBE).tolist():
        raise CheckpointError(
            f"beside a model of type {config.model_type!r}, transformers loads another tokenizer "
            f"({type(theirs).__name__}) than the files in {tokenizer_dir} describe; train a model "
            f"of another type, or with a tokenizer of that class"
        )

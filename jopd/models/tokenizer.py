"""Chats to ids and ids to text, and whether a student's ids mean the same to its teacher."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool
from transformers import PreTrainedTokenizerFast

from jopd.models.checkpoint_files import CheckpointError, read_json
from jopd.models.word_tokenizer import build_word_tokenizer
from jopd.types import HostBools, HostInts

__all__ = ["TeacherVocabulary", "Tokenizer", "build_word_tokenizer", "check_compatible"]

_SHOWN_DIFFERENCES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokenizer:
    """A tokenizer as jopd uses it: chats in, exact ids out, no hidden special tokens.

    Attributes:
      backend: the tokenizer of transformers.
      stop_ids: ids that end a response; the tokenizer's own end token comes first.
      template_options: further variables of the chat template, such as enable_thinking.
    """

    backend: PreTrainedTokenizerFast
    stop_ids: tuple[int, ...]
    template_options: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def load(
        cls, directory: Path, template_options: Mapping[str, Any] | None = None
    ) -> "Tokenizer":
        """Reads a tokenizer and its stop ids from a Hugging Face directory.

        Stop ids are the tokenizer's end token and those of `generation_config.json`, if there is
        one: chat models often name further ones only there.

        Raises:
          CheckpointError: there is no fast tokenizer, no chat template or no stop id.
        """
        if not (directory / "tokenizer.json").is_file():
            raise CheckpointError(
                f"{directory} has no tokenizer.json; give a Hugging Face directory with the files "
                f"of a fast tokenizer"
            )
        # Not AutoTokenizer: for some model types it replaces what tokenizer.json says.
        backend = PreTrainedTokenizerFast.from_pretrained(str(directory), local_files_only=True)
        if backend.chat_template is None:
            raise CheckpointError(
                f"the tokenizer in {directory} has no chat template; use a chat model's, or add "
                f"chat_template.jinja"
            )
        return cls(
            backend=backend,
            stop_ids=_stop_ids(backend, directory),
            template_options=dict(template_options or {}),
        )

    @property
    def token_ids(self) -> dict[str, int]:
        """Id of every token, added and special ones included, padding rows of the model not."""
        return self.backend.get_vocab()

    def render_chat(
        self, messages: Sequence[Mapping[str, str]], *, tools: Sequence[str] = ()
    ) -> HostInts:
        """Ids of a chat that waits for the assistant's reply.

        Args:
          messages: each with "role" and "content".
          tools: JSON schemas of tools; templates of models that know none leave them out.
        """
        ids = self.backend.apply_chat_template(
            [dict(message) for message in messages],
            add_generation_prompt=True,
            tokenize=True,
            return_dict=False,
            tools=[json.loads(tool) for tool in tools] or None,
            **self.template_options,
        )
        return np.asarray(ids, np.int32)

    def encode(self, text: str) -> HostInts:
        """Ids of a plain text; nothing is put before or after it."""
        return np.asarray(self.backend.encode(text, add_special_tokens=False), np.int32)

    def decode(self, ids: HostInts, *, skip_special: bool = True) -> str:
        """Text of some ids, exactly as their tokens say, without special tokens unless asked."""
        text = self.backend.decode(
            ids.tolist(), skip_special_tokens=skip_special, clean_up_tokenization_spaces=False
        )
        assert isinstance(text, str)  # a list only for a list of texts
        return text


def _stop_ids(backend: PreTrainedTokenizerFast, directory: Path) -> tuple[int, ...]:
    file = directory / "generation_config.json"
    named = read_json(file).get("eos_token_id") if file.is_file() else None
    further = [named] if isinstance(named, int) else list(named or ())
    own = [] if backend.eos_token is None else [backend.get_vocab()[str(backend.eos_token)]]
    if not own + further:
        raise CheckpointError(
            f"{directory} names no end token; set eos_token in tokenizer_config.json or "
            f"eos_token_id in generation_config.json"
        )
    return tuple(dict.fromkeys(own + further))


@dataclass(frozen=True, slots=True, kw_only=True)
class TeacherVocabulary:
    """What a teacher knows of a student's ids.

    Attributes:
      known_ids: [student vocabulary] True where the id is the same token to the teacher. Ids past
        the end (padding rows of the student's model) are unknown.
    """

    known_ids: Bool[np.ndarray, " student_vocab"]

    def known(self, ids: HostInts) -> HostBools:
        """True where the teacher's score of an id means something."""
        inside = ids < len(self.known_ids)
        return inside & self.known_ids[np.where(inside, ids, 0)]


def check_compatible(student: Tokenizer, teacher: Tokenizer) -> TeacherVocabulary:
    """Compares the token-to-id maps of a student and its teacher; padded sizes do not matter.

    Tokens that only the student has are allowed: the teacher cannot score them, so they are masked.

    Raises:
      ValueError: a token has two ids, or an id means two tokens of the base vocabularies.
    """
    ours, theirs = student.token_ids, teacher.token_ids
    differences = _moved_tokens(ours, theirs) or _reused_ids(student, teacher)
    if differences:
        shown = "; ".join(differences[:_SHOWN_DIFFERENCES])
        raise ValueError(
            f"student and teacher have different tokenizers, so the teacher would score other "
            f"tokens than the student wrote: {len(differences)} differences, first {shown}"
        )
    known_ids = np.zeros(max(ours.values()) + 1, np.bool_)
    known_ids[[i for token, i in ours.items() if theirs.get(token) == i]] = True
    return TeacherVocabulary(known_ids=known_ids)


def _moved_tokens(ours: Mapping[str, int], theirs: Mapping[str, int]) -> list[str]:
    moved = sorted((i, token) for token, i in ours.items() if theirs.get(token, i) != i)
    return [f"{token!r} is id {i} and {theirs[token]}" for i, token in moved]


def _reused_ids(student: Tokenizer, teacher: Tokenizer) -> list[str]:
    """Ids that mean two different tokens of the base vocabularies (added tokens are masked)."""
    ours, theirs = _base_tokens(student), _base_tokens(teacher)
    shared = sorted(ours.keys() & theirs.keys())
    return [f"id {i} is {ours[i]!r} and {theirs[i]!r}" for i in shared if ours[i] != theirs[i]]


def _base_tokens(tokenizer: Tokenizer) -> dict[int, str]:
    base = tokenizer.backend.backend_tokenizer.get_vocab(with_added_tokens=False)
    return {i: token for token, i in base.items()}

"""What student and teacher read: token ids, stop ids, padded vocabularies, the prompt."""

from collections.abc import Iterator

from jopd.assembly import ModelFiles
from jopd.checks.findings import Finding, error, ok, warning
from jopd.models.tokenizer import Tokenizer, check_compatible

_CHAT = ({"role": "user", "content": "a"}, {"role": "assistant", "content": "b"})


def check_tokenizers(student: ModelFiles, teacher: ModelFiles) -> Iterator[Finding]:
    """Whether the same ids mean the same to both, whatever their padding."""
    try:
        vocabulary = check_compatible(student.tokenizer, teacher.tokenizer)
    except ValueError as problem:
        yield error("tokenizers", f"{problem}; take a teacher of the student's family")
        return
    unknown = len(student.tokenizer.token_ids) - int(vocabulary.known_ids.sum())
    if unknown:
        yield warning(
            "tokenizers",
            f"{unknown} tokens of the student are unknown to the teacher: they are masked",
        )
    else:
        yield ok("tokenizers", f"{len(student.tokenizer.token_ids):,} tokens mean the same to both")
    ours, theirs = student.config.vocab_size, teacher.config.vocab_size
    shown = f"{ours:,} rows (student) and {theirs:,} rows (teacher)"
    yield ok("vocabulary", shown if ours == theirs else f"{shown}: fine, padding is never sampled")


def check_rows(model: ModelFiles, name: str) -> Iterator[Finding]:
    """Whether the model has a row for every token."""
    largest = max(model.tokenizer.token_ids.values())
    if largest >= model.config.vocab_size:
        yield error(
            "vocabulary",
            f"the {name}'s tokenizer has the id {largest:,}, its model only "
            f"{model.config.vocab_size:,} rows; resize the model or take its own tokenizer",
        )


def check_stop_ids(tokenizer: Tokenizer, name: str) -> Iterator[Finding]:
    """Whether what ends an assistant's turn in the chat template also stops a response."""
    ending = _ending(tokenizer)
    names = tokenizer.backend.convert_ids_to_tokens(list(tokenizer.stop_ids))
    if ending is None:
        yield warning(f"stop ids ({name})", f"the chat template marks no end of a turn; {names}")
    elif ending not in tokenizer.stop_ids:
        token = tokenizer.backend.convert_ids_to_tokens(ending)
        yield error(
            f"stop ids ({name})",
            f"turns of the chat template end with {token!r} (id "
            f"{ending}), which is none of the stop ids {names}: no response would end; "
            "add it to eos_token_id in generation_config.json",
        )
    else:
        yield ok(f"stop ids ({name})", f"{names} end a response")


def _ending(tokenizer: Tokenizer) -> int | None:
    """The special id that the chat template puts after an assistant's message."""
    ids = tokenizer.backend.apply_chat_template(
        [dict(message) for message in _CHAT], tokenize=True, return_dict=False
    )
    special = set(tokenizer.backend.all_special_ids) | set(tokenizer.stop_ids)
    content = tokenizer.encode("b")[-1]
    after = list(ids)[len(ids) - 1 - list(ids)[::-1].index(content) + 1 :]
    return next((i for i in after if i in special), None)


def check_prompt(tokens: int, limit: int) -> Finding:
    """Whether the first prompt fits.

    Args:
      tokens: its length.
      limit: `rollout.max_prompt_tokens`.
    """
    shown = f"{tokens:,} tokens of at most {limit:,}"
    if tokens > limit:
        advice = "raise rollout.max_prompt_tokens or take a shorter prompt.style"
        return error("prompt", f"{shown}; {advice}")
    if tokens > 0.8 * limit:
        return warning("prompt", f"{shown}: later turns may not fit; see rollout.overflow")
    return ok("prompt", shown)

"""Settings of the JetStream engine, apart from it: reading them must not import JetStream."""

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Literal

FloatType = Literal["float32", "bfloat16"]

STOP_IDS_WIDTH = 8  # stop ids a request may have


@dataclass(frozen=True, slots=True, kw_only=True)
class JetStreamSettings:
    """Sizes and types of one engine.

    Attributes:
      slots: turns decoded at once.
      max_context: tokens of prompt and response together; the length of the KV cache per slot.
      max_prompt: tokens of the longest prompt.
      prefill_buckets: lengths to which computed tokens are padded, ascending, the last
        `max_prompt`; empty for powers of two from 16.
      decode_block: decode steps per generate call.
      compute_dtype: of matrix operands; the engine's copy of the weights is cast to it.
      cache_dtype: of keys and values.
      reuse_prefixes: keep the keys and values of finished turns for prompts that go on from them.
      deadline_s: a request without any progress for that long ends the engine; compiling counts
        as no progress.
      real_vocab_size: ids at and past it are padding of the vocabulary and are never sampled;
        log-probs stay over the whole padded vocabulary. None: every id is real.
    """

    slots: int
    max_context: int
    max_prompt: int
    prefill_buckets: tuple[int, ...] = ()
    decode_block: int = 8
    compute_dtype: FloatType = "float32"
    cache_dtype: FloatType = "float32"
    reuse_prefixes: bool = True
    deadline_s: float = 600.0
    real_vocab_size: int | None = field(default=None, metadata={"derived": True})

    def __post_init__(self):
        """Refuses sizes that do not fit each other."""
        if min(self.slots, self.max_prompt, self.decode_block) < 1:
            raise ValueError(
                "slots, max_prompt and decode_block must be >= 1, got "
                f"{self.slots}, {self.max_prompt} and {self.decode_block}"
            )
        if self.max_prompt >= self.max_context:
            raise ValueError(
                f"max_prompt must be < max_context = {self.max_context}, got {self.max_prompt}"
            )
        buckets = self.prefill_buckets
        if buckets and (list(buckets) != sorted(set(buckets)) or buckets[-1] != self.max_prompt):
            raise ValueError(
                f"prefill_buckets must ascend to max_prompt = {self.max_prompt}, got {buckets}"
            )

    @property
    def buckets(self) -> tuple[int, ...]:
        """The lengths to which computed tokens are padded."""
        if self.prefill_buckets:
            return self.prefill_buckets
        powers = [2**exponent for exponent in range(4, self.max_prompt.bit_length())]
        return (*(power for power in powers if power < self.max_prompt), self.max_prompt)

    def bucket(self, length: int) -> int:
        """The smallest bucket that holds `length` tokens."""
        return self.buckets[bisect_left(self.buckets, length)]

"""Makes one batch per update from the queue and the pending pool: Algorithm 1 of DivOPD, whole.

Called by the learner's thread only. Invariants: every turn that leaves the queue is trained, stale,
invalid, aged out, discarded at a resume, or still pending, and counted as such; a wait ends when
the queue closes.
"""

import time
from collections import Counter
from dataclasses import dataclass
from typing import Any, Literal

import jax
import numpy as np

from jopd.algorithms.composition import COMPOSERS, Composer, Fate, Pool, compose
from jopd.experience.queue import ExperienceQueue
from jopd.experience.records import candidate_from_record, candidate_to_record
from jopd.experience.validity import make_candidate
from jopd.types import Candidate, Composition, Turn


@dataclass(frozen=True, slots=True, kw_only=True)
class ComposerSettings:
    """How batches are composed; names and defaults of DivOPD's Table 3.

    Attributes:
      composer: a name of `algorithms.composition.COMPOSERS`.
      batch_size: B, turns per update.
      pool_multiplier: c, batches in the candidate pool; vanilla reads one batch whatever it says.
      first_pass_cap: k, turns that a rollout may give in the first pass.
      max_staleness: delta, updates between the generation of a turn and its training.
      max_pending_age: W, updates for which an unselected turn may wait in the pool.
      age_offset: 0 admits lags 0..max_staleness; 1 is stricter by one update, as the public code
        base of the papers counts.
      fill: "available" waits for a batch of valid turns and then takes what is there up to the
        pool; "block" waits for the full pool, as the papers do.
      seed: of the composers that draw.
    """

    composer: str
    batch_size: int
    pool_multiplier: int
    first_pass_cap: int
    max_staleness: int
    max_pending_age: int
    age_offset: Literal[0, 1]
    fill: Literal["available", "block"]
    seed: int

    def __post_init__(self):
        if self.composer not in COMPOSERS:
            raise ValueError(f"composer {self.composer!r} is not one of {', '.join(COMPOSERS)}")
        ranges = (
            ("batch_size", self.batch_size, 1),
            ("pool_multiplier", self.pool_multiplier, 1),
            ("first_pass_cap", self.first_pass_cap, 1),
            ("max_staleness", self.max_staleness, self.age_offset),
            ("max_pending_age", self.max_pending_age, 0),
            ("seed", self.seed, 0),
        )
        for name, value, least in ranges:
            if not least <= value < 2**31:
                raise ValueError(f"{name} must be in {least}..2**31 - 1, got {value}")

    @property
    def rules(self) -> Composer:
        """What the named composer does."""
        return COMPOSERS[self.composer]

    @property
    def pool_size(self) -> int:
        """Turns in a full candidate pool."""
        return self.batch_size * (self.pool_multiplier if self.rules.pools else 1)

    def oldest_version(self, update_index: int) -> int:
        """Turns of lower versions are stale at this update (Algorithm 1, step 1)."""
        return max(update_index + self.age_offset - self.max_staleness, 0)


_REASONS = ("read", "stale_queue", "stale_pending", "invalid", "aged_out", "trained", "discarded")


class BatchReader:
    """Composes the batch of each update.

    `Composition.counts` has, for the update: `read` turns that left the queue, of which
    `stale_queue` were refused; `stale_pending`, `invalid` and `aged_out` turns that left the pool;
    `trained` turns selected.

    Attributes:
      settings: how batches are composed.
    """

    def __init__(self, queue: ExperienceQueue, settings: ComposerSettings):
        self.settings = settings
        self._queue = queue
        self._host = jax.local_devices(backend="cpu")[0]
        self._pool: list[Candidate] = []
        self._totals = Counter(dict.fromkeys(_REASONS, 0))
        self._oldest_version = 0

    def next(self, *, update_index: int, timeout_s: float | None = None) -> Composition:
        """Composes the batch of an update, waiting while there is nothing to train.

        Args:
          update_index: q, updates already applied.
          timeout_s: after so long a short batch is made of what is there; None waits until the
            queue closes.

        Raises:
          QueueClosed: the queue is or becomes closed.
          TimeoutError: there was nothing to train in time.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        before = self._totals.copy()
        self._drop_stale(update_index)
        selected: list[Candidate] = []
        while not selected:
            self._fill(update_index, deadline)
            selected = self._compose(update_index)
            if not selected and deadline is not None and time.monotonic() >= deadline:
                raise TimeoutError(
                    f"nothing to train at update {update_index} within {timeout_s} s; so far "
                    f"{self.counts}"
                )
        return Composition(
            update_index=update_index,
            selected=tuple(selected),
            pending=self.pending,
            counts={reason: self._totals[reason] - before[reason] for reason in _REASONS},
        )

    def missing_turns(self, *, update_index: int) -> int:
        """How many more turns the queue must hold before `next` would not wait (lock-step mode)."""
        oldest = self.settings.oldest_version(update_index)
        pending = sum(c.turn.policy_version >= oldest for c in self._pool)
        ready = self._queue.count(
            lambda turn: (
                turn.policy_version >= oldest
                and self._counts_as_read(make_candidate(turn, first_seen=update_index))
            )
        )
        return max(0, self._wanted(pending) - ready)

    @property
    def pending(self) -> tuple[Candidate, ...]:
        """Turns carried to the next update."""
        return tuple(self._pool)

    @property
    def counts(self) -> dict[str, int]:
        """Turns since the start by reason, and `pending`."""
        return {**self._totals, "pending": len(self._pool)}

    def state(self) -> dict[str, Any]:
        """Pending turns with their stamps, and the counts, as JSON."""
        return {
            "pending": [candidate_to_record(candidate) for candidate in self._pool],
            "counts": dict(self._totals),
        }

    def restore(self, state: dict[str, Any], *, max_version: int) -> None:
        """Continues from a state.

        Args:
          state: what `state` returned.
          max_version: version of the restored weights; turns of later ones are discarded.

        Raises:
          ValueError: more turns are pending than the settings allow.
        """
        candidates = [candidate_from_record(record) for record in state["pending"]]
        self._pool = [c for c in candidates if c.turn.policy_version <= max_version]
        if len(self._pool) > self.settings.pool_size:
            raise ValueError(
                f"{len(self._pool)} turns are pending in the checkpoint, but batch_size and "
                f"pool_multiplier make a pool of {self.settings.pool_size}"
            )
        self._totals = Counter(state["counts"])
        self._totals["discarded"] += len(candidates) - len(self._pool)

    def _drop_stale(self, update_index: int) -> None:
        """Step 1: the version gate of pending turns."""
        self._oldest_version = self.settings.oldest_version(update_index)
        fresh = [c for c in self._pool if c.turn.policy_version >= self._oldest_version]
        self._totals["stale_pending"] += len(self._pool) - len(fresh)
        self._pool = fresh

    def _admit(self, turn: Turn) -> bool:
        """Step 2: the version gate of turns that leave the queue; counts every one."""
        is_fresh = turn.policy_version >= self._oldest_version
        self._totals["read"] += 1
        self._totals["stale_queue"] += not is_fresh
        return is_fresh

    def _wanted(self, pending: int) -> int:
        """How many turns must be read, beside the pending ones, before the pool is composed."""
        blocks = self.settings.fill == "block"
        size = self.settings.pool_size if blocks else self.settings.batch_size
        return max(0, size - pending)

    def _counts_as_read(self, candidate: Candidate) -> bool:
        """Whether a turn shortens the wait: only those that can be trained do."""
        return candidate.valid or not self.settings.rules.gate or self.settings.fill == "block"

    def _fill(self, update_index: int, deadline: float | None) -> None:
        """Step 2: reads until enough turns are there, then what is there up to the pool's size."""
        wanted = self._wanted(len(self._pool))
        while True:
            room = self.settings.pool_size - len(self._pool)
            least = min(wanted, room)
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            turns = self._queue.take(
                max_turns=room, min_turns=least, accept=self._admit, timeout_s=left
            )
            fresh = [make_candidate(turn, first_seen=update_index) for turn in turns]
            self._pool.extend(fresh)
            wanted -= sum(map(self._counts_as_read, fresh))
            if wanted <= 0 or len(turns) == room or len(turns) < least:
                return

    def _compose(self, update_index: int) -> list[Candidate]:
        """Steps 3 to 9: the selected turns in order; what stays pending stays in the pool."""
        settings = self.settings
        with jax.default_device(self._host):
            selection = compose(
                pool_arrays(self._pool, settings.pool_size),
                composer=settings.rules,
                batch_size=settings.batch_size,
                first_pass_cap=settings.first_pass_cap,
                max_pending_age=settings.max_pending_age,
                update_index=update_index,
                seed=settings.seed,
            )
        places, fates = (np.asarray(array).tolist() for array in selection)
        selected = [self._pool[place] for place in places if place >= 0]
        self._totals["trained"] += len(selected)
        self._totals["invalid"] += fates.count(Fate.INVALID)
        self._totals["aged_out"] += fates.count(Fate.AGED_OUT)
        self._pool = [
            candidate
            for candidate, fate in zip(self._pool, fates, strict=False)
            if fate == Fate.PENDING
        ]
        return selected


def pool_arrays(candidates: list[Candidate], size: int) -> Pool:
    """Candidates as arrays of a fixed length.

    Raises:
      OverflowError: a rollout id, an arrival or an update is not an int32.
    """

    def column(values: list[Any], dtype: type) -> np.ndarray:
        array = np.zeros(size, dtype)
        array[: len(values)] = values
        return array

    return Pool(
        rollout_id=column([c.turn.rollout_id for c in candidates], np.int32),
        turn=column([c.turn.index for c in candidates], np.int32),
        first_seen=column([c.first_seen for c in candidates], np.int32),
        arrival=column([c.turn.arrival for c in candidates], np.int32),
        score=column([c.disagreement for c in candidates], np.float32),
        valid=column([c.valid for c in candidates], np.bool_),
        present=column([True] * len(candidates), np.bool_),
    )


def turn_balance(queue: ExperienceQueue, reader: BatchReader) -> dict[str, int]:
    """Where every produced turn is: `produced` is the sum of all the others."""
    queued, read = queue.counts, reader.counts
    return {
        "produced": queued["produced"],
        "trained": read["trained"],
        "stale": read["stale_queue"] + read["stale_pending"],
        "aged_out": read["aged_out"],
        "invalid": read["invalid"],
        "pending": read["pending"],
        "queued": queued["queued"],
        "discarded": queued["evicted"] + queued["discarded"] + read["discarded"],
    }

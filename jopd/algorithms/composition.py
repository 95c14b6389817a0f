"""Which turns of a candidate pool enter the next update: Algorithm 1 of DivOPD and its variants.

One compiled function serves every composer. A composer is a row of `COMPOSERS`: it says who may be
chosen, what counts as a group, and how turns rank inside a group. With r the rank of a turn in its
group, Algorithm 1's sweeps are

    pass  p = max(0, r - first_pass_cap + 1)
    order by (p, position of the group, r) and take `batch_size`,

because every sweep after the first raises the cap by one. That is two stable sorts.
"""

import enum
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Num, UInt

from jopd.types import AnyArray

Scalar = int | Int[AnyArray, ""]
_LAST = np.iinfo(np.int32).max


class Ranking(enum.StrEnum):
    """How turns of one group rank; ties go to the smaller (rollout, turn)."""

    DISAGREEMENT = "disagreement"  # largest first
    UNIFORM = "uniform"  # a permutation drawn from (seed, update, rollout)
    ARRIVAL = "arrival"  # in order of arrival


@dataclass(frozen=True, slots=True, kw_only=True)
class Composer:
    """What distinguishes one composer from another.

    Attributes:
      gate: only valid turns may be chosen; the others are discarded.
      by_rollout: a group is a rollout, oldest first; otherwise the whole pool is one group.
      ranking: the order inside a group.
      capped: a group gives at most `first_pass_cap` turns in the first pass.
      pools: it reads a pool of `pool_multiplier` batches and carries what it did not choose;
        otherwise it reads one batch and carries nothing.
    """

    gate: bool = True
    by_rollout: bool = True
    ranking: Ranking = Ranking.DISAGREEMENT
    capped: bool = True
    pools: bool = True


_IN_ARRIVAL_ORDER = Composer(by_rollout=False, ranking=Ranking.ARRIVAL, capped=False)

COMPOSERS = {
    "divopd": Composer(),
    "divopd_base": Composer(ranking=Ranking.UNIFORM),
    "uncapped": Composer(ranking=Ranking.UNIFORM, capped=False),
    "uncapped_focus": Composer(capped=False),
    "top_b": Composer(by_rollout=False, capped=False),
    "gate_only": _IN_ARRIVAL_ORDER,
    "vanilla_matched": replace(_IN_ARRIVAL_ORDER, gate=False),
    "vanilla": replace(_IN_ARRIVAL_ORDER, gate=False, pools=False),
}


class Fate(enum.IntEnum):
    """What became of a place of the pool."""

    EMPTY = 0  # no turn was there
    SELECTED = 1
    PENDING = 2  # may be chosen at a later update
    AGED_OUT = 3  # not chosen, and seen first too long ago
    INVALID = 4  # stopped by the gate


class Pool(NamedTuple):
    """Candidates as arrays of one fixed length, in any order.

    Rollout ids, turns, updates and arrivals are int32: up to 2,147,483,647 of each. A pair
    (rollout_id, turn) occurs once.

    Attributes:
      rollout_id: [pool] number of the rollout; the smaller breaks ties.
      turn: [pool] index of the turn in its rollout.
      first_seen: [pool] update at which the turn first entered the pool.
      arrival: [pool] sequence number of entry into the queue.
      score: [pool] disagreement s(u) of Eq. 2, in nats; compared raw.
      valid: [pool] VALID(u) holds.
      present: [pool] True where there is a turn, False where the place only fills the shape.
    """

    rollout_id: Int[AnyArray, " pool"]
    turn: Int[AnyArray, " pool"]
    first_seen: Int[AnyArray, " pool"]
    arrival: Int[AnyArray, " pool"]
    score: Float[AnyArray, " pool"]
    valid: Bool[AnyArray, " pool"]
    present: Bool[AnyArray, " pool"]


class Selection(NamedTuple):
    """What a composer made of a pool.

    Attributes:
      places: [batch] places of the chosen turns, in order of selection; -1 past the last one.
      fate: [pool] a `Fate` for every place.
    """

    places: Int[AnyArray, " batch"]
    fate: Int[AnyArray, " pool"]


@partial(jax.jit, static_argnames=("composer", "batch_size"))
def compose(
    pool: Pool,
    *,
    composer: Composer,
    batch_size: int,
    first_pass_cap: Scalar,
    max_pending_age: Scalar,
    update_index: Scalar,
    seed: Scalar,
) -> Selection:
    """Algorithm 1 of DivOPD (arXiv:2609.34838), steps 3 to 9, for any composer.

    Stale turns (steps 1 and 2) must have left the pool. A pool with fewer than `batch_size`
    eligible turns gives a short batch of all of them.

    Args:
      pool: the candidates.
      composer: gate, groups, ranking and cap.
      batch_size: B, in turns.
      first_pass_cap: k, in turns of one rollout; not read by composers without a cap.
      max_pending_age: W, in updates.
      update_index: q, updates already applied.
      seed: of the uniform ranking; not read by the others.

    Returns:
      The chosen places in order, and the fate of every place.
    """
    eligible = pool.present & (pool.valid | (not composer.gate))
    within = _within_group(pool, composer.ranking, update_index, seed)
    ranked = _rank(pool, eligible, within, by_rollout=composer.by_rollout)
    cap = first_pass_cap if composer.capped else _LAST
    sweep = jnp.where(ranked.group == _LAST, _LAST, jnp.maximum(0, ranked.rank - cap + 1))
    # The rows stand by (group, rank) already, and a stable sort keeps that order among equals.
    sweep, _, order = jax.lax.sort((sweep, ranked.age, ranked.place), num_keys=2, is_stable=True)
    first, is_real = order[:batch_size], sweep[:batch_size] < _LAST
    places = jnp.pad(
        jnp.where(is_real, first, -1), (0, batch_size - first.size), constant_values=-1
    )
    selected = jnp.zeros_like(eligible).at[first].set(is_real)
    fate = _fates(pool, eligible, selected, update_index - pool.first_seen <= max_pending_age)
    return Selection(places=places, fate=fate)


class _Ranked(NamedTuple):
    """The pool sorted by (group, rank), ineligible places last."""

    place: Int[Array, " pool"]  # where the row stands in the pool
    group: Int[Array, " pool"]  # rollout id, or 0 for the whole pool; _LAST if ineligible
    rank: Int[Array, " pool"]  # r, from 0
    age: Int[Array, " pool"]  # oldest `first_seen` of the row's group


def _rank(
    pool: Pool,
    eligible: Bool[AnyArray, " pool"],
    within: Num[AnyArray, " pool"],
    *,
    by_rollout: bool,
) -> _Ranked:
    """Algorithm 1, steps 4 and 5: the rank of each turn in its group, and the age of the group."""
    group = jnp.where(eligible, pool.rollout_id if by_rollout else 0, _LAST)
    counter = jnp.arange(group.size, dtype=jnp.int32)
    keys = [jnp.asarray(key) for key in (group, within, pool.rollout_id, pool.turn)]
    group, *_, place = jax.lax.sort((*keys, counter), num_keys=len(keys), is_stable=True)
    is_first = jnp.append(True, group[1:] != group[:-1])
    start = jax.lax.cummax(jnp.where(is_first, counter, 0))  # place of the group's first row
    first_seen = jnp.asarray(pool.first_seen)[place]
    oldest = jnp.full_like(first_seen, _LAST).at[start].min(first_seen)
    return _Ranked(place=place, group=group, rank=counter - start, age=oldest[start])


def _fates(
    pool: Pool,
    eligible: Bool[AnyArray, " pool"],
    selected: Bool[AnyArray, " pool"],
    may_wait: Bool[AnyArray, " pool"],
) -> Int[Array, " pool"]:
    """The `Fate` of every place."""
    unselected = jnp.where(may_wait, jnp.int32(Fate.PENDING), jnp.int32(Fate.AGED_OUT))
    fate = jnp.where(eligible, unselected, jnp.int32(Fate.INVALID))
    fate = jnp.where(selected, jnp.int32(Fate.SELECTED), fate)
    return jnp.where(pool.present, fate, jnp.int32(Fate.EMPTY))


def _within_group(
    pool: Pool, ranking: Ranking, update_index: Scalar, seed: Scalar
) -> Num[AnyArray, " pool"]:
    """The key by which turns of one group rank, smallest first."""
    match ranking:
        case Ranking.DISAGREEMENT:
            return -pool.score
        case Ranking.ARRIVAL:
            return pool.arrival
        case Ranking.UNIFORM:
            return uniform_draws(pool.rollout_id, pool.turn, update_index=update_index, seed=seed)


def uniform_draws(
    rollout_id: Int[AnyArray, " pool"],
    turn: Int[AnyArray, " pool"],
    *,
    update_index: Scalar,
    seed: Scalar,
) -> UInt[Array, " pool"]:
    """Independent 32-bit draws, one a turn: sorting a rollout by them permutes it uniformly.

    A draw depends on (seed, update, rollout, turn) alone, so neither the order of the groups nor
    the presence of others changes it.
    """
    seed_key = jax.random.key(seed, impl="threefry2x32")
    update_key = jax.random.fold_in(seed_key, update_index)

    def draw(rollout_id: Int[Array, ""], turn: Int[Array, ""]) -> UInt[Array, ""]:
        turn_key = jax.random.fold_in(jax.random.fold_in(update_key, rollout_id), turn)
        return jax.random.key_data(turn_key)[0]

    return jax.vmap(draw)(jnp.asarray(rollout_id), jnp.asarray(turn))

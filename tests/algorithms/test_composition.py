import itertools
import json
from collections import Counter, defaultdict
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jopd.algorithms.composition import COMPOSERS, Fate, Pool, compose, uniform_draws

EXAMPLE = json.loads(
    (Path(__file__).parents[1] / "data/composition_worked_example.json").read_text()
)
SIZE = 24  # places of every pool here: one shape to compile
COLUMNS = dict.fromkeys(("rollout_id", "turn", "first_seen", "arrival"), np.int32)
COLUMNS |= {"score": np.float32, "valid": bool}


def make_pool(rows):
    filled = {name: np.zeros(SIZE, dtype) for name, dtype in COLUMNS.items()}
    for name in COLUMNS:
        filled[name][: len(rows)] = [row[name] for row in rows]
    return Pool(**filled, present=np.arange(SIZE) < len(rows))


def row(rollout_id, turn, score=0.0, *, first_seen=0, valid=True, arrival=None):
    return {
        "rollout_id": rollout_id,
        "turn": turn,
        "score": score,
        "first_seen": first_seen,
        "valid": valid,
        "arrival": turn if arrival is None else arrival,
    }


def select(pool, composer, batch_size, **settings):
    return compose(
        pool,
        composer=COMPOSERS[composer],
        batch_size=batch_size,
        **{"first_pass_cap": 2, "max_pending_age": 8, "update_index": 10, "seed": 0} | settings,
    )


def choose(rows, composer, batch_size=8, **settings):
    """Selected (rollout, turn) in order, and the (rollout, turn) of every fate."""
    selection = jax.device_get(select(make_pool(rows), composer, batch_size, **settings))
    names = [(u["rollout_id"], u["turn"]) for u in rows]
    fates = {fate: [] for fate in Fate}
    for name, fate in zip(names, selection.fate, strict=False):
        fates[Fate(fate)].append(name)
    return [names[place] for place in selection.places if place >= 0], fates


# --- the oracle: Algorithm 1, line by line --------------------------------------------------------


def algorithm_1(rows, *, batch_size, cap, max_pending_age, update_index, rank_key):
    """Lines 3 to 9 of Algorithm 1 as printed; lines 1 and 2 have been applied to `rows`."""
    valid = [u for u in rows if u["valid"]]
    groups = defaultdict(list)
    for u in valid:
        groups[u["rollout_id"]].append(u)
    oldest_first = sorted(groups, key=lambda r: (min(u["first_seen"] for u in groups[r]), r))
    for turns in groups.values():
        turns.sort(key=lambda u: (rank_key(u), u["rollout_id"], u["turn"]))
    selected, given, height = [], Counter(), cap
    while True:
        for r in oldest_first:
            while given[r] < min(height, len(groups[r])) and len(selected) < batch_size:
                selected.append(groups[r][given[r]])
                given[r] += 1
        if len(selected) in (batch_size, len(valid)):
            break
        height += 1
    taken = {id(u) for u in selected}
    left = [u for u in valid if id(u) not in taken]
    return selected, [u for u in left if update_index - u["first_seen"] <= max_pending_age]


def arrival_order(rows, *, batch_size, max_pending_age, update_index, **_):
    """Vanilla: what entered the queue first is trained first, valid or not."""
    ordered = sorted(rows, key=lambda u: u["arrival"])
    left = {id(u) for u in ordered[batch_size:]}
    return ordered[:batch_size], [
        u for u in rows if id(u) in left and update_index - u["first_seen"] <= max_pending_age
    ]


def random_pools(seed, count):
    """Stacked pools and their rows: few or many rollouts, gaps, ties, dead turns, any order."""
    rng = np.random.default_rng(seed)
    shape = (count, SIZE)
    rollouts = rng.integers(1, 13, (count, 1))
    cell = rng.random((count, 3 * SIZE)).argsort(axis=1)[:, :SIZE]
    tied = rng.random(shape) < 0.5
    score = np.where(tied, rng.integers(-3, 4, shape), rng.normal(size=shape)).astype(np.float32)
    pools = Pool(
        rollout_id=(cell % rollouts).astype(np.int32),
        turn=(cell // rollouts).astype(np.int32),
        first_seen=rng.integers(4, 11, shape, dtype=np.int32),
        arrival=rng.random(shape).argsort(axis=1).astype(np.int32),
        score=score,
        valid=rng.random(shape) > 0.15,
        present=np.arange(SIZE) < rng.integers(1, SIZE + 1, (count, 1)),
    )
    columns = [column.tolist() for column in pools]
    return pools, [
        [dict(zip(COLUMNS, u, strict=False)) for u in zip(*pool, strict=True) if u[-1]]
        for pool in zip(*columns, strict=True)
    ]


def select_from_all(pools, composer, batch_size, caps, ages):
    """One compiled call over many pools; pool i has seed i."""

    @jax.jit
    @jax.vmap
    def run(pool, cap, age, seed):
        settings = {"first_pass_cap": cap, "max_pending_age": age, "seed": seed}
        draws = uniform_draws(pool.rollout_id, pool.turn, update_index=10, seed=seed)
        return select(pool, composer, batch_size, **settings), draws

    return jax.device_get(run(pools, caps, ages, np.arange(len(caps))))


RANK_KEYS = {"divopd": lambda u: -u["score"], "divopd_base": lambda u: u["draw"], "vanilla": None}


@pytest.mark.parametrize("composer", RANK_KEYS)
def test_ten_thousand_random_pools_agree_with_the_printed_algorithm(composer):
    oracle = arrival_order if composer == "vanilla" else algorithm_1
    for batch_size, count in ((1, 2000), (8, 8000)):
        rng = np.random.default_rng(batch_size)
        caps, ages = rng.integers(1, 9, count), rng.integers(0, 7, count)
        pools, rows_of_pools = random_pools(batch_size, count)
        selection, draws = select_from_all(pools, composer, batch_size, caps, ages)
        for i, rows in enumerate(rows_of_pools):
            for u, draw in zip(rows, draws[i].tolist(), strict=False):
                u["draw"] = draw
            selected, pending = oracle(
                rows,
                batch_size=batch_size,
                cap=caps[i],
                max_pending_age=ages[i],
                update_index=10,
                rank_key=RANK_KEYS[composer],
            )
            assert [rows[p] for p in selection.places[i].tolist() if p >= 0] == selected
            fates = zip(rows, selection.fate[i].tolist(), strict=False)
            assert [u for u, fate in fates if fate == Fate.PENDING] == pending


# --- the worked example ---------------------------------------------------------------------------


def example_rows():
    """The pool of twelve after the version gate of steps 1 and 2."""
    fresh = [{**u, "first_seen": 10} for u in EXAMPLE["queue"]]
    return [u for u in EXAMPLE["pending"] + fresh if u["version"] >= 8][:12]


@pytest.mark.parametrize("composer", ["divopd", "top_b", "gate_only", "vanilla_matched"])
def test_the_worked_example_is_selected_in_its_order(composer):
    expected = EXAMPLE["expected"][composer]
    selected, fates = choose(example_rows(), composer, 6)
    assert selected == [tuple(u) for u in expected["selected"]]
    assert fates[Fate.PENDING] == [tuple(u) for u in expected["pending"]]
    assert fates[Fate.INVALID] == ([] if composer == "vanilla_matched" else [(0, 5)])


@pytest.mark.parametrize(
    ("batch_size", "more"),
    [
        (8, [(3, 0), (3, 1)]),
        (10, [(3, 0), (3, 1), (0, 0), (0, 4)]),
        (12, [(3, 0), (3, 1), (0, 0), (0, 4), (0, 2)]),
    ],
)
def test_each_relaxation_raises_the_cap_of_every_rollout_by_one(batch_size, more):
    first = [tuple(u) for u in EXAMPLE["expected"]["divopd"]["selected"]]
    selected, _ = choose(example_rows(), "divopd", batch_size)
    assert selected == first + more


def test_focus_without_a_cap_takes_the_best_turns_of_the_oldest_rollouts():
    selected, _ = choose(example_rows(), "uncapped_focus")
    assert selected == [(2, 3), (2, 1), (0, 1), (0, 3), (0, 0), (0, 4), (0, 2), (1, 1)]


def test_arrival_order_lets_a_dead_turn_take_a_slot_where_there_is_no_gate():
    arrived = [(2, 1), (2, 3), (0, 0), (0, 1), (0, 2), (0, 3), (0, 4)]
    assert choose(example_rows(), "vanilla")[0] == [*arrived, (0, 5)]
    assert choose(example_rows(), "vanilla_matched")[0] == [*arrived, (0, 5)]
    assert choose(example_rows(), "gate_only")[0] == [*arrived, (1, 0)]


@pytest.mark.parametrize(
    ("composer", "drawn", "share"), [("divopd_base", 2, 0.4), ("uncapped", 4, 0.8)]
)
def test_uniform_composers_draw_every_turn_of_a_rollout_equally_often(composer, drawn, share):
    rows, draws = example_rows(), 4000
    pool = make_pool(rows)
    select_with = jax.jit(jax.vmap(lambda seed: select(pool, composer, 6, seed=seed).places))
    counts = Counter()
    for places in np.asarray(select_with(jnp.arange(draws))):
        names = [(rows[p]["rollout_id"], rows[p]["turn"]) for p in places]
        assert set(names[:2]) == {(2, 1), (2, 3)}
        assert sum(rollout_id == 0 for rollout_id, _ in names) == drawn
        counts.update(turn for rollout_id, turn in names if rollout_id == 0)
    four_deviations = 4 * np.sqrt(share * (1 - share) / draws)
    assert all(abs(counts[turn] / draws - share) < four_deviations for turn in range(5))


# --- properties -----------------------------------------------------------------------------------


def test_base_and_divopd_give_every_rollout_the_same_number_of_turns():
    pools, rows_of_pools = random_pools(7, 1000)
    caps, ages = np.random.default_rng(7).integers(1, 6, 1000), np.full(1000, 8)
    counts = []
    for composer in ("divopd", "divopd_base"):
        selection, _ = select_from_all(pools, composer, 8, caps, ages)
        counts.append(
            [
                Counter(rows[p]["rollout_id"] for p in places if p >= 0)
                for rows, places in zip(rows_of_pools, selection.places.tolist(), strict=True)
            ]
        )
    assert counts[0] == counts[1]


@pytest.mark.parametrize("composer", sorted(COMPOSERS))
def test_the_input_order_of_the_pool_does_not_matter(composer):
    rng = np.random.default_rng(3)
    rows = random_pools(3, 1)[1][0]
    expected, _ = choose(rows, composer)
    for _ in range(5):
        shuffled = [rows[i] for i in rng.permutation(len(rows))]
        assert choose(shuffled, composer)[0] == expected


def test_the_draw_of_a_rollout_does_not_depend_on_other_rollouts():
    alone = [row(2, t) for t in range(6)]
    crowd = [row(r, t) for r in (3, 5, 9) for t in range(4)]
    expected, _ = choose(alone, "divopd_base", first_pass_cap=6)
    selected, _ = choose(crowd + alone, "divopd_base", first_pass_cap=6)
    assert [name for name in selected if name[0] == 2] == expected


def test_the_draw_changes_with_seed_and_update():
    rows = [row(7, t) for t in range(8)]
    orders = {
        tuple(choose(rows, "divopd_base", seed=seed, update_index=q)[0])
        for seed, q in itertools.product((0, 1), (10, 11))
    }
    assert len(orders) == 4


@pytest.mark.parametrize("cap", [1, 2, 3, 4])
def test_at_least_batch_over_cap_rollouts_are_covered(cap):
    rows = [row(r, t, score=float(t)) for r in range(8) for t in range(3)]
    selected, _ = choose(rows, "divopd", first_pass_cap=cap)
    assert len({rollout_id for rollout_id, _ in selected}) >= -(-8 // cap)


def test_a_cap_of_one_is_round_robin():
    rows = [row(r, t, score=float(t)) for r in range(3) for t in range(3)]
    selected, _ = choose(rows, "divopd", first_pass_cap=1)
    assert selected == [(0, 2), (1, 2), (2, 2), (0, 1), (1, 1), (2, 1), (0, 0), (1, 0)]


@pytest.mark.parametrize("cap", [8, 50, 2_147_483_647])
def test_a_cap_of_a_batch_lets_the_oldest_rollout_fill_it(cap):
    rows = [row(r, t, score=float(-t)) for r in range(2) for t in range(10)]
    expected = [(0, t) for t in range(8)]
    assert choose(rows, "divopd", first_pass_cap=cap)[0] == expected
    assert choose(rows, "uncapped_focus")[0] == expected


def test_rollouts_are_ordered_by_number_not_by_name():
    rows = [row(10, 0), row(2, 0), row(2_147_483_646, 0)]
    assert choose(rows, "divopd")[0] == [(2, 0), (10, 0), (2_147_483_646, 0)]


def test_a_rollout_seen_in_two_reads_keeps_its_oldest_stamp():
    rows = [row(5, 0, first_seen=9), row(1, 0, first_seen=10), row(5, 1, 3.0, first_seen=10)]
    assert choose(rows, "divopd")[0] == [(5, 1), (5, 0), (1, 0)]


def test_the_stamp_of_an_invalid_turn_does_not_age_its_rollout():
    rows = [row(5, 0, first_seen=9, valid=False), row(5, 1, first_seen=10)]
    assert choose([*rows, row(1, 0, first_seen=10)], "divopd")[0] == [(1, 0), (5, 1)]


def test_equal_scores_and_both_zeros_go_to_the_earlier_turn():
    rows = [row(0, 2, 0.0), row(0, 1, -0.0), row(0, 0, 0.0), row(0, 3, 1e-30)]
    assert choose(rows, "divopd", first_pass_cap=4)[0] == [(0, 3), (0, 0), (0, 1), (0, 2)]


def test_scores_that_differ_in_their_last_bit_are_not_tied():
    larger = float(np.nextafter(np.float32(1), np.float32(2)))
    assert choose([row(0, 0, 1.0), row(0, 1, larger)], "divopd")[0] == [(0, 1), (0, 0)]


def test_a_short_pool_gives_a_short_batch_of_everything_valid():
    rows = [row(0, 0), row(0, 1, valid=False), row(1, 0)]
    selected, fates = choose(rows, "divopd")
    assert selected == [(0, 0), (1, 0)]
    assert fates == {
        Fate.EMPTY: [],
        Fate.SELECTED: selected,
        Fate.PENDING: [],
        Fate.AGED_OUT: [],
        Fate.INVALID: [(0, 1)],
    }


def test_a_pool_smaller_than_the_batch_fits_its_shape():
    few = Pool(*(column[:3] for column in make_pool([row(1, 0), row(0, 0)])))
    assert np.asarray(select(few, "divopd", 8).places).tolist() == [1, 0, *[-1] * 6]


def test_an_empty_pool_selects_nothing():
    assert choose([], "divopd")[0] == []
    assert choose([row(0, 0, valid=False)], "divopd")[0] == []


def test_unselected_turns_age_out_by_their_first_seen_update():
    stamps = dict.fromkeys(range(8), 10) | {8: 8, 9: 7}
    rows = [row(0, t, float(-t), first_seen=stamp) for t, stamp in stamps.items()]
    _, fates = choose(rows, "divopd", max_pending_age=2)
    assert fates[Fate.PENDING] == [(0, 8)]
    assert fates[Fate.AGED_OUT] == [(0, 9)]


def test_one_configuration_compiles_once():
    compose.clear_cache()
    for update_index in range(4):
        rows = random_pools(update_index, 1)[1][0]
        for cap, age, seed in ((1, 0, 0), (4, 8, 1)):
            settings = {"first_pass_cap": cap, "max_pending_age": age, "seed": seed}
            choose(rows, "divopd_base", update_index=update_index, **settings)
    assert compose._cache_size() == 1


@pytest.mark.parametrize("composer", sorted(COMPOSERS))
def test_selection_is_two_stable_sorts_and_calls_nothing_outside(composer):
    settings = {"first_pass_cap": 2, "max_pending_age": 8, "update_index": 10, "seed": 0}
    text = compose.lower(
        make_pool(example_rows()), composer=COMPOSERS[composer], batch_size=6, **settings
    ).as_text()
    assert text.count("stablehlo.sort") == text.count("is_stable = true") == 2
    assert "custom_call" not in text

"""Batch selection: the compiled composer beside NumPy and plain Python, on one pool and on replays.

python -m benchmarks.selection
"""

import json
import statistics
import time
from collections.abc import Callable

import jax
import numpy as np
from jaxtyping import Int

from jopd.algorithms.composition import COMPOSERS, Pool, compose

POOL, BATCH, CAP = 256, 64, 4
REPLAY_ROWS = 1_000_000
TURNS_PER_ROLLOUT = 12
_COMPILED = "/jax/core/compile/backend_compile_duration"
SETTINGS = {"max_pending_age": 8, "update_index": 10, "seed": 0}


def measure() -> dict[str, float]:
    """Microseconds per pool of 256 (median, and CPU), seconds per 1e6 rows, programs compiled."""
    figures: dict[str, float] = {}
    pool = make_pool(POOL)
    jax.clear_caches()
    compiled: list[str] = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, *_, **__: compiled.append(event) if event == _COMPILED else None
    )
    for composer in ("divopd", "divopd_base", "vanilla"):
        wall, cpu = _time(lambda composer=composer: select(pool, composer), repeats=1000)
        figures[f"{composer}_jit_256_us"] = 1e6 * wall
        figures[f"{composer}_jit_256_cpu_us"] = 1e6 * cpu
    figures["programs_for_three_composers"] = len(compiled)
    expected = select(pool, "divopd").tolist()
    for name, other in (("numpy", select_numpy), ("python", select_python)):
        assert other(pool).tolist() == expected
        figures[f"divopd_{name}_256_us"] = 1e6 * _time(lambda f=other: f(pool), repeats=1000)[0]
    many = make_pool(REPLAY_ROWS)
    figures["divopd_jit_1e6_s"] = _time(lambda: select(many, "divopd"), repeats=3)[0]
    figures["divopd_numpy_1e6_s"] = _time(lambda: select_numpy(many), repeats=3)[0]
    figures["divopd_python_1e6_s"] = _time(lambda: select_python(many), repeats=1)[0]
    return figures


def make_pool(rows: int) -> Pool:
    """Rollouts of twelve turns, a tenth of them dead, seen first over three updates."""
    rng = np.random.default_rng(0)
    number = np.arange(rows, dtype=np.int32)
    return Pool(
        rollout_id=number // TURNS_PER_ROLLOUT,
        turn=number % TURNS_PER_ROLLOUT,
        first_seen=(8 + number // TURNS_PER_ROLLOUT % 3).astype(np.int32),
        arrival=number,
        score=rng.normal(size=rows).astype(np.float32),
        valid=rng.random(rows) > 0.1,
        present=np.ones(rows, bool),
    )


def select(pool: Pool, composer: str) -> Int[np.ndarray, " batch"]:
    """The compiled composer on the host's CPU device, from host arrays to host arrays."""
    with jax.default_device(jax.local_devices(backend="cpu")[0]):
        selection = compose(
            pool,
            composer=COMPOSERS[composer],
            batch_size=BATCH,
            first_pass_cap=CAP,
            **SETTINGS,
        )
    places, _ = (np.asarray(array) for array in selection)
    return places


def select_numpy(pool: Pool) -> Int[np.ndarray, " batch"]:
    """The same selection by two NumPy sorts."""
    rows = np.flatnonzero(pool.present & pool.valid)
    rows = rows[np.lexsort((pool.turn[rows], -pool.score[rows], pool.rollout_id[rows]))]
    rollout = np.asarray(pool.rollout_id)[rows]
    starts = np.flatnonzero(np.append(True, rollout[1:] != rollout[:-1]))
    sizes = np.diff(np.append(starts, len(rows)))
    rank = np.arange(len(rows)) - np.repeat(starts, sizes)
    oldest = np.minimum.reduceat(np.asarray(pool.first_seen)[rows], starts)
    sweep = np.maximum(0, rank - CAP + 1)
    return rows[np.lexsort((np.repeat(oldest, sizes), sweep))][:BATCH]


def select_python(pool: Pool) -> Int[np.ndarray, " batch"]:
    """The same selection by the loop that the paper prints."""
    columns = [column.tolist() for column in pool]
    rollout_id, turn, first_seen, _, score, valid, _ = columns
    groups: dict[int, list[int]] = {}
    for row in range(len(turn)):
        if valid[row]:
            groups.setdefault(rollout_id[row], []).append(row)
    for rows in groups.values():
        rows.sort(key=lambda row: (-score[row], turn[row]))
    order = sorted(groups, key=lambda r: (min(first_seen[row] for row in groups[r]), r))
    selected: list[int] = []
    given, height = dict.fromkeys(order, 0), CAP
    while len(selected) < BATCH and any(given[r] < len(groups[r]) for r in order):
        for rollout in order:
            while given[rollout] < min(height, len(groups[rollout])) and len(selected) < BATCH:
                selected.append(groups[rollout][given[rollout]])
                given[rollout] += 1
        height += 1
    return np.array(selected)


def _time(call: Callable[[], object], *, repeats: int) -> tuple[float, float]:
    """Median wall seconds and mean CPU seconds of a call, after one call to warm up."""
    call()
    walls = []
    cpu = time.process_time()
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        walls.append(time.perf_counter() - start)
    return statistics.median(walls), (time.process_time() - cpu) / repeats


if __name__ == "__main__":
    print(json.dumps(measure(), indent=2))

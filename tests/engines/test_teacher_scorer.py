import asyncio
import dataclasses
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jopd.engines.base import EngineError, Score
from jopd.engines.score_planner import batch_shapes
from jopd.engines.teacher_scorer import ScorerSettings, TeacherScorer
from jopd.models.architectures import DecoderConfig
from jopd.models.decoder import hidden_states, init_params, output_head
from jopd.parallel import make_mesh

VOCABULARY = 61
CONFIG = DecoderConfig(
    vocab_size=VOCABULARY,
    hidden_size=16,
    intermediate_size=32,
    num_layers=2,
    num_heads=4,
    num_kv_heads=2,
    head_dim=4,
    rope_theta=1e4,
    rms_norm_eps=1e-6,
    tie_embeddings=True,
    qkv_bias=False,
    qk_norm=True,
    max_positions=128,
    model_type="qwen3",
)
SETTINGS = ScorerSettings(
    cache_rows=6,
    max_context=64,
    max_batch_rows=4,
    max_batch_tokens=128,
    buckets=(32,),
    head_chunk=16,
    compute_dtype="float32",
    cache_dtype="float32",
    deadline_s=300.0,
)
CLOSE = 1e-4  # float32 sums in another order

Pair = tuple[np.ndarray, np.ndarray]


def make_params(seed: int = 0):
    """Random weights, large enough that a wrong context or place changes every log-prob."""
    return jax.tree.map(lambda leaf: 4 * leaf, init_params(CONFIG, jax.random.key(seed)))


PARAMS = make_params()


@pytest.fixture(scope="module")
def shared_scorer() -> Iterator[TeacherScorer]:
    scorer = TeacherScorer(PARAMS, CONFIG, SETTINGS)
    yield scorer
    scorer.close()


@pytest.fixture
def start() -> Iterator:
    """Starts a scorer with changed settings and closes it after the test."""
    started = []

    def make(params=PARAMS, *, known_ids=None, mesh=None, **changes) -> TeacherScorer:
        settings = dataclasses.replace(SETTINGS, **changes)
        started.append(TeacherScorer(params, CONFIG, settings, known_ids=known_ids, mesh=mesh))
        return started[-1]

    yield make
    for scorer in started:
        scorer.close()


def random_ids(rng: np.random.Generator, count: int) -> np.ndarray:
    return rng.integers(0, VOCABULARY, count).astype(np.int32)


def plain_logprobs(prompt: np.ndarray, response: np.ndarray) -> np.ndarray:
    """One pass over the whole sequence with whole logits, padded to one length."""
    ids = np.zeros((1, SETTINGS.max_context), np.int32)
    ids[0, : len(prompt) + len(response)] = np.concatenate([prompt, response])
    logits = _plain_logits(ids)[len(prompt) - 1 : len(prompt) + len(response) - 1]
    return np.array([row[token] for row, token in zip(logits, response, strict=True)])


@jax.jit
def _plain_logits(ids):
    positions = jnp.arange(ids.shape[1])[None]
    hidden = hidden_states(
        PARAMS, CONFIG, ids, positions, jnp.ones_like(ids), compute_dtype=jnp.float32
    )
    return jax.nn.log_softmax(hidden[0] @ output_head(PARAMS, CONFIG).T)


def score_all(scorer: TeacherScorer, pairs: Sequence[Pair], first_rollout: int = 0) -> list[Score]:
    async def run() -> list[Score]:
        return await asyncio.gather(
            *(scorer.score(*pair, rollout_id=first_rollout + i) for i, pair in enumerate(pairs))
        )

    return asyncio.run(run())


def score_one(scorer: TeacherScorer, pair: Pair, rollout_id: int = 0) -> Score:
    return score_all(scorer, [pair], rollout_id)[0]


def assert_right(score: Score, pair: Pair) -> None:
    assert score.mask.all()
    np.testing.assert_allclose(score.logprobs, plain_logprobs(*pair), atol=CLOSE)


def counted(scorer: TeacherScorer, work) -> dict[str, int]:
    """What the counts grew by."""
    before = dataclasses.asdict(scorer.counts)
    work()
    return {name: now - before[name] for name, now in dataclasses.asdict(scorer.counts).items()}


def test_scores_of_ragged_concurrent_requests_equal_a_plain_forward_pass(shared_scorer):
    rng = np.random.default_rng(0)
    pairs = [
        (random_ids(rng, int(rng.integers(1, 40))), random_ids(rng, int(rng.integers(1, 24))))
        for _ in range(20)
    ]
    for score, pair in zip(score_all(shared_scorer, pairs), pairs, strict=True):
        assert_right(score, pair)


def copying_params():
    """logits[next] = 4 if next == current else 0: the layers add nothing, embeddings are 2 I."""
    nothing = jax.tree.map(jnp.zeros_like, PARAMS)
    embedding = 2.0 * jnp.eye(VOCABULARY, CONFIG.hidden_size)
    ones = {"scale": jnp.ones(CONFIG.hidden_size)}
    return nothing | {"embed": {"embedding": embedding}, "final_norm": ones}


def test_a_log_prob_comes_from_the_place_before_its_token(start):
    """By hand: after [1], token 1 has logit s = 2 * 2 / sqrt(4 / 16) = 8 and the others 0.

    Rows 16 .. 60 of the embedding are zero, so every other logit is 0 whatever comes before.
    """
    same = 8 - np.log(np.exp(8) + VOCABULARY - 1)
    other = -np.log(np.exp(8) + VOCABULARY - 1)
    scorer = start(copying_params())
    score = score_one(scorer, (np.array([1], np.int32), np.array([1, 2], np.int32)))
    np.testing.assert_allclose(score.logprobs, [same, other], rtol=1e-5)
    one_token = score_one(scorer, (np.array([5, 1], np.int32), np.array([1], np.int32)))
    np.testing.assert_allclose(one_token.logprobs, [same], rtol=1e-5)
    assert one_token.mask.tolist() == [True]


def test_a_growing_prompt_is_computed_from_where_the_last_turn_ended(start):
    rng = np.random.default_rng(1)
    scorer = start()
    prompt = random_ids(rng, 20)
    for turn in range(4):
        response = random_ids(rng, 3)
        grown = counted(
            scorer,
            lambda p=prompt, r=response: assert_right(score_one(scorer, (p, r)), (p, r)),
        )
        assert grown["computed_tokens"] == (22 if turn == 0 else 3 + 5)
        assert grown["reused_tokens"] == (0 if turn == 0 else len(prompt) + 2 - 8)
        prompt = np.concatenate([prompt, response, random_ids(rng, 5)])


def test_a_prompt_that_shares_only_a_beginning_reuses_that(start):
    rng = np.random.default_rng(2)
    scorer = start()
    system = random_ids(rng, 12)
    for turn in range(4):
        tail = random_ids(rng, 10)
        tail[0] = turn  # the first token after the system prompt differs
        pair = (np.concatenate([system, tail]), random_ids(rng, 4))
        grown = counted(scorer, lambda pair=pair: assert_right(score_one(scorer, pair), pair))
        assert grown["reused_tokens"] == (0 if turn == 0 else 12)


def test_rollouts_that_start_together_compute_their_system_prompt_once(start):
    rng = np.random.default_rng(3)
    scorer = start()
    system = random_ids(rng, 40)
    tails = [np.array([i, 7], np.int32) for i in range(8)]
    pairs = [(np.concatenate([system, tail]), random_ids(rng, 2)) for tail in tails]

    def work():
        for score, pair in zip(score_all(scorer, pairs), pairs, strict=True):
            assert_right(score, pair)

    assert counted(scorer, work)["computed_tokens"] == 43 + 7 * 3


def test_scores_stay_right_when_rollouts_evict_each_other(start):
    rng = np.random.default_rng(4)
    scorer = start()
    prompts = [random_ids(rng, 10) for _ in range(15)]  # and 6 rows
    for _ in range(3):
        pairs = [(prompt, random_ids(rng, 3)) for prompt in prompts]
        for score, pair in zip(score_all(scorer, pairs), pairs, strict=True):
            assert_right(score, pair)
        prompts = [np.concatenate([p, r, random_ids(rng, 4)]) for p, r in pairs]


def test_ids_that_the_teacher_does_not_know_are_masked(start):
    known = np.ones(VOCABULARY + 9, bool)
    known[5] = False
    scorer = start(known_ids=known)
    prompt, response = np.array([3, 4], np.int32), np.array([6, 5, 7], np.int32)
    score = score_one(scorer, (prompt, response))
    assert score.mask.tolist() == [True, False, True]
    expected = plain_logprobs(prompt, response)
    np.testing.assert_allclose(score.logprobs, [expected[0], 0.0, expected[2]], atol=CLOSE)
    assert scorer.counts.masked_tokens == 1


def test_ids_past_the_teachers_vocabulary_are_masked_even_where_listed_as_known(start):
    scorer = start(known_ids=np.ones(VOCABULARY + 9, bool))
    response = np.array([6, VOCABULARY, 7, VOCABULARY + 50], np.int32)
    score = score_one(scorer, (np.array([3], np.int32), response))
    assert score.mask.tolist() == [True, False, True, False]
    read_as_last = plain_logprobs(np.array([3, 6, VOCABULARY - 1], np.int32), response[2:3])
    np.testing.assert_allclose(score.logprobs[2:3], read_as_last, atol=CLOSE)


def test_scores_that_are_not_finite_are_masked_and_leave_the_pool_usable(start):
    poisoned = PARAMS["embed"]["embedding"].at[9].set(jnp.nan)
    untied = dataclasses.replace(CONFIG, tie_embeddings=False)
    params = PARAMS | {
        "embed": {"embedding": poisoned},
        "head": {"kernel": PARAMS["embed"]["embedding"]},
    }
    scorer = TeacherScorer(params, untied, SETTINGS)
    good, bad = np.array([3, 4], np.int32), np.array([4, 9, 8, 8], np.int32)
    response = np.array([6, 7], np.int32)
    score = score_one(scorer, (bad, response))
    assert score.mask.tolist() == [False, False]
    assert score.logprobs.tolist() == [0.0, 0.0]
    assert scorer.counts.non_finite_tokens == 2
    assert_right(score_one(scorer, (good, response)), (good, response))  # its rollout's own row
    scorer.close()


def test_the_same_ids_scored_several_times_at_once_agree(shared_scorer):
    rng = np.random.default_rng(5)
    pair = (random_ids(rng, 30), random_ids(rng, 12))
    scores = score_all(shared_scorer, [pair] * 9, first_rollout=100)
    spread = np.ptp(np.stack([score.logprobs for score in scores]), axis=0)
    assert spread.max() < 1e-5  # float32 sums in another order


def test_callers_on_several_event_loops_share_a_scorer(shared_scorer):
    rng = np.random.default_rng(6)
    pairs = [(random_ids(rng, 10), random_ids(rng, 5)) for _ in range(6)]
    scores: dict[int, list[Score]] = {}

    def play(caller: int) -> None:
        mine = pairs[2 * caller : 2 * caller + 2]
        scores[caller] = score_all(shared_scorer, mine, first_rollout=200 + 2 * caller)

    threads = [threading.Thread(target=play, args=(caller,)) for caller in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for index, pair in enumerate(pairs):
        assert_right(scores[index // 2][index % 2], pair)


def test_a_cancelled_request_disturbs_nobody(shared_scorer):
    rng = np.random.default_rng(7)
    pairs = [(random_ids(rng, 20), random_ids(rng, 5)) for _ in range(6)]

    async def run() -> list[Score | BaseException]:
        tasks = [
            asyncio.create_task(shared_scorer.score(*pair, rollout_id=300 + i))
            for i, pair in enumerate(pairs)
        ]
        await asyncio.sleep(0)
        tasks[0].cancel()
        tasks[5].cancel()
        return await asyncio.gather(*tasks, return_exceptions=True)

    answers = asyncio.run(run())
    assert isinstance(answers[0], asyncio.CancelledError)
    assert isinstance(answers[5], asyncio.CancelledError)
    for answer, pair in zip(answers[1:5], pairs[1:5], strict=True):
        assert isinstance(answer, Score)
        assert_right(answer, pair)


def test_an_empty_response_has_an_empty_score(shared_scorer):
    score = score_one(shared_scorer, (np.array([1], np.int32), np.zeros(0, np.int32)))
    assert (len(score.logprobs), len(score.mask)) == (0, 0)


@pytest.mark.parametrize(
    ("prompt", "response", "message"),
    [
        (60, 5, r"max_context = 64 .* 60 \+ 5 = 65"),
        (0, 5, r"prompt must have a token .* 0 \+ 5 = 5"),
    ],
)
def test_a_request_that_does_not_fit_is_refused_with_its_numbers(
    shared_scorer, prompt, response, message
):
    pair = (np.ones(prompt, np.int32), np.ones(response, np.int32))
    with pytest.raises(ValueError, match=message):
        score_one(shared_scorer, pair)


def test_the_longest_request_that_fits_is_scored(shared_scorer):
    rng = np.random.default_rng(8)
    pair = (random_ids(rng, 1), random_ids(rng, 63))
    assert_right(score_one(shared_scorer, pair, rollout_id=400), pair)


def test_a_negative_id_is_refused(shared_scorer):
    with pytest.raises(ValueError, match="negative, got -1"):
        score_one(shared_scorer, (np.array([-1], np.int32), np.array([1], np.int32)))


def test_a_failing_worker_fails_every_waiting_and_later_request(start):
    incomplete = {name: leaf for name, leaf in PARAMS.items() if name != "final_norm"}
    scorer = start(incomplete)
    pair = (np.ones(4, np.int32), np.ones(4, np.int32))

    async def run() -> list[BaseException | Score]:
        tasks = (scorer.score(*pair, rollout_id=i) for i in range(5))
        return await asyncio.gather(*tasks, return_exceptions=True)

    for answer in asyncio.run(run()):
        assert isinstance(answer, EngineError)
        assert isinstance(answer.__cause__, KeyError)
    with pytest.raises(EngineError, match="final_norm"):
        score_one(scorer, pair)


def test_close_wakes_every_waiter_within_seconds(start):
    scorer = start(head_chunk=17)  # no other test has compiled its programs
    pair = (np.ones(4, np.int32), np.ones(4, np.int32))

    async def run() -> list[BaseException | Score]:
        tasks = [asyncio.create_task(scorer.score(*pair, rollout_id=i)) for i in range(5)]
        await asyncio.sleep(0)  # all are submitted; the first program is being compiled
        await asyncio.to_thread(scorer.close)
        return await asyncio.gather(*tasks, return_exceptions=True)

    begin = time.monotonic()
    answers = asyncio.run(run())
    assert time.monotonic() - begin < 10.0
    assert [type(answer) for answer in answers] == [EngineError] * 5
    with pytest.raises(EngineError, match="the scorer is closed"):
        score_one(scorer, pair)


def test_a_process_that_forgets_to_close_its_scorer_ends():
    script = "from jopd.engines.score_desk import Desk; import threading; desk = Desk(); "
    script += "threading.Thread(target=desk.wait, kwargs={'block': True}).start()"
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_a_score_that_takes_too_long_fails_with_the_deadline(start):
    scorer = start(deadline_s=0.001, head_chunk=18)  # no other test has compiled its programs
    with pytest.raises(EngineError, match=r"no progress for 0\.001 s"):
        score_one(scorer, (np.ones(4, np.int32), np.ones(4, np.int32)))


def test_nothing_is_compiled_after_every_shape_was_met(start):
    rng = np.random.default_rng(9)
    scorer = start(max_batch_rows=1)
    for length in (10, 50):  # one per context
        score_one(scorer, (random_ids(rng, length), random_ids(rng, 3)), rollout_id=length)
    assert scorer.counts.compilations == 2

    def traffic():
        pairs = [(random_ids(rng, int(rng.integers(1, 50))), random_ids(rng, 9)) for _ in range(20)]
        score_all(scorer, pairs, first_rollout=100)

    assert counted(scorer, traffic)["compilations"] == 0


def test_compilations_are_bounded_by_the_planned_shapes(shared_scorer):
    shapes = batch_shapes(buckets=(32,), max_context=64, max_rows=4, max_tokens=128)
    assert shared_scorer.counts.compilations <= len(shapes.all()) == 4


def test_scores_on_a_mesh_equal_those_on_one_device(start):
    mesh = make_mesh(jax.devices()[2:6], {"fsdp": 2, "tensor": 2})
    scorer = start(mesh=mesh)
    rng = np.random.default_rng(10)
    pairs = [(random_ids(rng, 12), random_ids(rng, 4)) for _ in range(2)]
    for score, pair in zip(score_all(scorer, pairs), pairs, strict=True):
        assert_right(score, pair)


def test_bfloat16_scores_differ_by_rounding_only(start):
    rng = np.random.default_rng(11)
    pair = (random_ids(rng, 10), random_ids(rng, 6))
    scorer = start(compute_dtype="bfloat16", cache_dtype="bfloat16")
    error = score_one(scorer, pair).logprobs - plain_logprobs(*pair)
    assert 0 < np.abs(error).max() < 0.25  # 8 bits of mantissa, logits up to 10


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"buckets": ()}, "buckets must be positive and increasing"),
        ({"buckets": (16, 8)}, "buckets must be positive and increasing"),
        ({"buckets": (16, 128)}, "buckets must be <= max_context = 64, got 128"),
        ({"max_batch_rows": 7}, r"max_batch_rows must be in 1 \.\. cache_rows = 6, got 7"),
    ],
)
def test_sizes_that_do_not_fit_each_other_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(SETTINGS, **changes)

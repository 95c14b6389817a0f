"""Our orchestrator under JetStream's own servicer, and its queue."""

import asyncio
import queue
import threading

import numpy as np
import pytest
from tiny_student import CONFIG, SETTINGS, greedy_response, random_prompts, weights

from jopd.engines.base import Sampling
from jopd.engines.jetstream_api import engine_api, orchestrator, tokenizer_api
from jopd.engines.jetstream_engine import JetStreamEngine
from jopd.engines.jetstream_threads import Orchestrator, PrefillQueue, TurnQueue

_pb2 = orchestrator.jetstream_pb2


class _Letters(tokenizer_api.Tokenizer):
    """Ids 0 to 63 as characters from '0' on."""

    pad_id, eos_id, bos_id = 0, 63, 0

    def encode(self, s, **kwargs):
        del kwargs
        padded = np.zeros(64, np.int32)
        padded[: len(s)] = [ord(letter) - ord("0") for letter in s]
        return padded, len(s)

    def decode(self, token_ids, **kwargs):
        del kwargs
        return "".join(chr(ord("0") + token) for token in token_ids)


def _text(tokens):
    return _Letters().decode(tokens)


def test_requests_of_jetstreams_servicer_are_answered_up_to_their_limit():
    failures = []
    engine = JetStreamEngine(
        CONFIG,
        weights(),
        SETTINGS,
        tokenizer=_Letters(),
        default_sampling=Sampling(temperature=0.0, max_tokens=1, stop_ids=()),
    )
    driver = Orchestrator(engine, on_leave=lambda: None, on_failure=failures.append)
    prompts = random_prompts(6, seed=1)

    async def ask_text(prompt, limit):
        content = _pb2.DecodeRequest.TextContent(text=_text(prompt))
        request = _pb2.DecodeRequest(text_content=content, max_tokens=limit)
        replies = orchestrator.LLMOrchestrator(driver).Decode(request)
        return "".join([reply.stream_content.samples[0].text async for reply in replies])

    async def ask_ids(prompt, limit):
        content = _pb2.DecodeRequest.TokenContent(token_ids=prompt.tolist())
        request = _pb2.DecodeRequest(token_content=content, max_tokens=limit)
        replies = orchestrator.LLMOrchestrator(driver).Decode(request)
        parts = [list(reply.stream_content.samples[0].token_ids) async for reply in replies]
        return [token for part in parts for token in part]

    async def ask_all():
        texts = [ask_text(prompt, 9 + i) for i, prompt in enumerate(prompts)]
        ids = [ask_ids(prompt, 9 + i) for i, prompt in enumerate(prompts)]
        return await asyncio.gather(*texts), await asyncio.gather(*ids)

    try:
        texts, ids = asyncio.run(ask_all())
    finally:
        driver.stop_soon().join()
    for i, prompt in enumerate(prompts):
        expected = greedy_response(weights().params, prompt, 9 + i)
        assert texts[i] == _text(expected)
        assert ids[i] == expected
    assert not failures


def _block():
    return engine_api.ResultTokens(np.zeros((1, 3)), (0, 1), (1, 2), (2, 3), 1)


def test_slots_that_end_become_free_when_their_block_is_read():
    free_slots, read = queue.Queue(), []
    turns = TurnQueue(free_slots)

    def read_block():
        turns.get()
        turns.give_back(3)
        read.append(free_slots.qsize())  # not free while the block is being read
        turns.task_done()

    reader = threading.Thread(target=read_block)
    reader.start()
    turns.put((0, _block()))
    reader.join()
    assert read == [0]
    assert free_slots.get_nowait() == 3


def test_requests_do_not_wait_for_a_reader():
    turns = TurnQueue(queue.Queue())
    turns.put((0, "request"))
    assert turns.qsize() == 1


def test_closing_lets_a_waiting_block_go():
    turns = TurnQueue(queue.Queue())
    writer = threading.Thread(target=turns.put, args=((0, _block()),))
    writer.start()
    turns.close()
    writer.join(10)
    assert not writer.is_alive()


def test_a_prompt_counts_as_waiting_until_it_is_computed():
    prompts = PrefillQueue()
    assert prompts.empty()
    prompts.put("a")
    assert not prompts.empty()
    assert prompts.get() == "a"
    assert not prompts.empty()  # it is being computed
    with pytest.raises(queue.Empty):
        prompts.get(block=False)  # the prefill thread is back for more
    assert prompts.empty()


def test_the_end_of_the_prefill_thread_leaves_no_prompt_waiting():
    prompts = PrefillQueue()
    prompts.put(None)
    assert prompts.get() is None
    assert prompts.empty()

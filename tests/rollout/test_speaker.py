import asyncio

import numpy as np
import pytest
from corridor import END, WORDS, WordIds, always

from jopd.engines.base import Sampling
from jopd.engines.scripted import ScriptedEngine
from jopd.envs.base import EnvError
from jopd.envs.tau2.conversation import Speak
from jopd.rollout.speaker import ModelSpeaker

CHAT = ({"role": "user", "content": "place0 place1"},)


def speaker(engine, max_prompt_tokens=9):
    sampling = Sampling(temperature=1.0, max_tokens=5, stop_ids=(END,))
    return ModelSpeaker(
        engine=engine, tokenizer=WordIds(), sampling=sampling, max_prompt_tokens=max_prompt_tokens
    )


def test_a_model_says_what_its_engine_answers():
    assert isinstance(speaker(always("left")), Speak)
    assert asyncio.run(speaker(always("left"))(CHAT, ())) == "left"


def test_the_seed_of_the_sampling_comes_from_the_chat():
    seeds = []

    def answer(prompt: np.ndarray, seed: int):
        seeds.append(seed)
        return (WORDS.index("left"), END)

    talk = speaker(ScriptedEngine(answer))
    for chat in (CHAT, CHAT, ({"role": "user", "content": "place2"},)):
        asyncio.run(talk(chat, ()))
    assert seeds[0] == seeds[1] != seeds[2]


def test_a_chat_that_is_too_long_is_a_failure_of_the_environment():
    with pytest.raises(EnvError, match="2 tokens, more than 1"):
        asyncio.run(speaker(always("left"), max_prompt_tokens=1)(CHAT, ()))

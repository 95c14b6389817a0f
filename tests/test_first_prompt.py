"""The prompt that a run and the doctor show first."""

import dataclasses
from pathlib import Path

import pytest

from jopd.assembly import ModelFiles, Stage
from jopd.checks.vocabulary import check_prompt
from jopd.envs.factory import open_environment
from jopd.envs.webshop.settings import WebShopSettings
from jopd.evaluation.evaluator import EvaluationSettings
from jopd.models.checkpoints import load_config
from jopd.models.tokenizer import Tokenizer
from jopd.rollout.prompt_style import PromptSettings, load_style
from jopd.rollout.runner import RolloutSettings
from jopd.training import show_prompt

MODEL = Path(__file__).parents[1] / "configs" / "quickstart_models" / "student"
STUDENT = ModelFiles(directory=MODEL, config=load_config(MODEL), tokenizer=Tokenizer.load(MODEL))


class Held:
    """A simulator that must be closed."""

    def __init__(self, simulator):
        self.simulator, self.closed = simulator, 0
        self.reset, self.step = simulator.reset, simulator.step
        self.is_allowed, self.expert_action = simulator.is_allowed, simulator.expert_action

    def close(self):
        self.closed += 1


SHOWN = (
    "<|im_start|> user i want teal velvet tablecloth with size: medium, and price lower than "
    "60.00 dollars | | Search <|im_end|> <|im_start|> assistant"
)


@pytest.fixture
def stage(tmp_path) -> Stage:
    return Stage(
        env=open_environment(WebShopSettings()),
        style=load_style(PromptSettings(style="webshop_plain", template_file="")),
        rollout=RolloutSettings(
            horizon=3, max_prompt_tokens=64, max_response_tokens=8, temperature=1.0, overflow="end"
        ),
        evaluation=EvaluationSettings(
            interval=1, episodes=1, samples_per_task=1, concurrency=1, temperature=0.4, seed=0
        ),
        conditions="",
        workdir=tmp_path,
    )


def test_a_run_prints_and_keeps_its_first_prompt_with_the_special_tokens(stage, capsys):
    show_prompt(stage, STUDENT)
    assert (stage.workdir / "prompt.txt").read_text() == SHOWN
    assert SHOWN in capsys.readouterr().out


def test_the_shown_text_is_that_of_the_very_ids(stage):
    prompt = stage.first_prompt(STUDENT)
    assert prompt.text == SHOWN
    assert STUDENT.tokenizer.encode(prompt.text).tolist() == prompt.tokens.tolist()


def test_the_simulator_of_the_first_prompt_is_closed(stage):
    held = Held(stage.env.make_simulator())
    opened = dataclasses.replace(stage.env, make_simulator=lambda: held)
    dataclasses.replace(stage, env=opened).first_prompt(STUDENT)
    assert held.closed == 1


@pytest.mark.parametrize(("tokens", "level"), [(80, "ok"), (81, "warning"), (101, "error")])
def test_a_prompt_that_does_not_fit_or_hardly_fits_is_said(tokens, level):
    assert check_prompt(tokens, 100).level == level

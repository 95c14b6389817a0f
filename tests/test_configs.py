"""Every recipe, in every variant, fills the settings exactly; every setting is read somewhere."""

import ast
import dataclasses
import importlib.util
import typing
from pathlib import Path

import pytest

from jopd.settings import SettingsError, SftSettings, TrainSettings, build
from jopd.training import check_settings

ROOT = Path(__file__).parents[1]
NOT_TRAINED = ("common", "__init__", "scienceworld_tiny", "alfworld_tiny")
RECIPES = sorted(p for p in (ROOT / "configs").glob("*.py") if p.stem not in NOT_TRAINED)
TRAIN_VARIANTS = ("divopd", "divopd_base", "vanilla", "smoke")
SFT_VARIANTS = {
    "quickstart": ("teacher", "cold_start"),
    "scienceworld_tiny": ("",),
    "alfworld_tiny": ("",),
}


def recipe(path: Path):
    spec = importlib.util.spec_from_file_location(f"recipe_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("variant", TRAIN_VARIANTS)
@pytest.mark.parametrize("path", RECIPES, ids=lambda p: p.stem)
def test_every_recipe_and_variant_makes_usable_settings(path, variant):
    settings = build(TrainSettings, recipe(path).get_config(variant))
    check_settings(settings)
    if variant != "smoke":
        assert settings.composer.composer == variant


@pytest.mark.parametrize(("stem", "variants"), SFT_VARIANTS.items())
def test_supervised_variants_make_usable_settings(stem, variants):
    for variant in variants:
        build(SftSettings, recipe(ROOT / "configs" / f"{stem}.py").get_config(variant))


@pytest.mark.parametrize("path", RECIPES, ids=lambda p: p.stem)
def test_an_unknown_variant_names_the_known_ones(path):
    with pytest.raises(ValueError, match="vanilla"):
        recipe(path).get_config("nonsense")


def test_webshop_7b_is_the_papers_row():
    """Tables 3, 4 and 5 of arXiv:2609.34838."""
    settings = build(TrainSettings, recipe(ROOT / "configs" / "webshop_7b.py").get_config())
    composer, optimizer = settings.composer, settings.optimizer
    assert (composer.batch_size, composer.pool_multiplier, composer.first_pass_cap) == (64, 4, 4)
    assert (composer.max_staleness, composer.max_pending_age) == (2, 8)
    assert (optimizer.learning_rate, optimizer.weight_decay) == (1e-6, 0.01)
    assert (optimizer.beta1, optimizer.beta2, optimizer.max_grad_norm) == (0.9, 0.999, 1.0)
    assert (settings.loss.reduction, settings.loss.distill_coef) == ("seq-mean-token-mean", 1.0)
    assert (settings.rollout.temperature, settings.evaluation.temperature) == (1.0, 0.4)
    assert (settings.evaluation.episodes, settings.rollout.horizon) == (128, 15)
    assert settings.student.checkpoint == "Qwen/Qwen2.5-7B-Instruct"


@pytest.mark.parametrize(
    ("stem", "student"), [("alfworld_1_7b", "Qwen/Qwen3-1.7B"), ("alfworld_4b", "Qwen/Qwen3-4B")]
)
def test_the_alfworld_recipes_are_the_papers_rows(stem, student):
    """Tables 1 and 3 of arXiv:2609.34838."""
    settings = build(TrainSettings, recipe(ROOT / "configs" / f"{stem}.py").get_config())
    assert settings.student.checkpoint == student
    assert settings.teacher.checkpoint == "langfeng01/GiGPO-Qwen2.5-7B-Instruct-ALFWorld"
    assert (settings.rollout.horizon, settings.composer.first_pass_cap) == (30, 4)
    assert (settings.runtime.num_updates, settings.evaluation.episodes) == (250, 140)


def test_math_4b_is_the_papers_setting():
    """Sections 5.1 and 7 and Table 4 of arXiv:2609.14636."""
    settings = build(TrainSettings, recipe(ROOT / "configs" / "math_4b.py").get_config())
    evaluation, rollout = settings.evaluation, settings.rollout
    assert (settings.optimizer.learning_rate, settings.composer.batch_size) == (2e-6, 48)
    assert (rollout.max_prompt_tokens, rollout.max_response_tokens) == (1024, 30 * 1024)
    assert (settings.runtime.num_updates, evaluation.interval) == (160, 20)
    assert (evaluation.samples_per_task, evaluation.episodes, rollout.horizon) == (8, 60, 1)
    assert (settings.composer.composer, settings.loss.reduction) == ("vanilla", "token-mean")
    assert settings.teacher.checkpoint == "Qwen/Qwen3-8B"


@pytest.fixture
def quickstart():
    return recipe(ROOT / "configs" / "quickstart.py").get_config()


def test_unknown_missing_and_mistyped_keys_are_all_reported_at_once(quickstart):
    config = quickstart.to_dict()
    config["queue"]["colour"] = "red"
    del config["optimizer"]["beta1"]
    config["rollout"]["overflow"] = "explode"
    config["runtime"]["num_updates"] = 1.5
    with pytest.raises(SettingsError) as caught:
        build(TrainSettings, config)
    for part in (
        "config.queue.colour is unknown",
        "config.optimizer.beta1 is missing",
        "config.rollout.overflow is 'explode'",
        "config.runtime.num_updates is 1.5",
    ):
        assert part in str(caught.value)


def test_settings_that_do_not_fit_each_other_are_refused(quickstart):
    quickstart.learner.row_length = 64
    quickstart.runtime.sync_interval = 7
    with pytest.raises(SettingsError, match=r"row_length(.|\n)*sync_interval"):
        check_settings(build(TrainSettings, quickstart))


def dataclasses_in(hint, found: set) -> set:
    """Every settings dataclass below a type."""
    for option in (hint, *typing.get_args(hint)):
        if dataclasses.is_dataclass(option) and option not in found:
            found.add(option)
            for child in typing.get_type_hints(option).values():
                dataclasses_in(child, found)
    return found


def test_every_setting_is_read_somewhere():
    read = set()
    for path in (ROOT / "jopd").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute):
                read.add(node.attr)
    spread = {"ScratchModel"}  # its fields go to DecoderConfig by name
    for record in dataclasses_in(TrainSettings, set()) | dataclasses_in(SftSettings, set()):
        if record.__name__ in spread:
            continue
        unread = {field.name for field in dataclasses.fields(record)} - read
        assert not unread, f"nobody reads {record.__name__}.{sorted(unread)}"

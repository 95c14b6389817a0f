import random

import pytest
from small_shop import ITEMS, item, write_shop

from jopd.envs.webshop.panels import load_panel
from jopd.envs.webshop.settings import WebShopSettings
from jopd.envs.webshop.simulator import WebShopSimulator
from jopd.envs.webshop.world import open_shop


@pytest.fixture(scope="module")
def shop():
    return open_shop(WebShopSettings())


def finish(simulator, limit=12):
    """Lets the expert play on; returns its actions and the last result."""
    actions = []
    while len(actions) < limit:
        action = simulator.expert_action()
        assert simulator.is_allowed(action), action
        actions.append(action)
        result = simulator.step(action)
        if result.done:
            return actions, result
    raise AssertionError(f"not finished: {actions}")


@pytest.mark.parametrize("split", ["train", "eval", "test"])
def test_the_expert_solves_the_embedded_panels(shop, split):
    simulator = WebShopSimulator(shop)
    tasks = load_panel(shop, split).tasks[:200]
    solved = 0
    for task in tasks:
        simulator.reset(task)
        actions, result = finish(simulator)
        solved += result.success
        assert len(actions) <= 5
    assert solved >= 0.99 * len(tasks)


def test_the_expert_recovers_from_any_page(shop):
    simulator, rng = WebShopSimulator(shop), random.Random(0)
    words = [product.title for product in shop.products]
    recovered = 0
    for task in load_panel(shop, "eval").tasks[:100]:
        result = simulator.reset(task)
        for _ in range(rng.randint(1, 8)):
            allowed = [a for a in result.allowed_actions if a != "click[buy now]"]
            action = rng.choice(allowed)
            if action.startswith("search"):
                action = f"search[{rng.choice(words)}]"
            result = simulator.step(action)
        _, result = finish(simulator)
        recovered += result.success
    assert recovered == 100


def test_the_expert_searches_with_words_of_the_instruction(shop):
    simulator = WebShopSimulator(shop)
    for task in load_panel(shop, "train").tasks[:50]:
        instruction = simulator.reset(task).instruction
        query = simulator.expert_action().removeprefix("search[").removesuffix("]")
        assert query in instruction.split()


def test_the_expert_turns_pages_and_leaves_wrong_products(tmp_path):
    scarfs = [item(f"C{n:09d}", "Linen Scarf", query="scarf") for n in range(23)]
    asin = scarfs[15]["asin"]
    about = {asin: {"instruction": "find a scarf", "instruction_attributes": ["soft"]}}
    shop = open_shop(write_shop(tmp_path, items=[*ITEMS, *scarfs], about=about))
    simulator = WebShopSimulator(shop)
    simulator.reset(shop.task(0))
    actions, result = finish(simulator)
    assert actions[:3] == ["search[scarf]", "click[next >]", f"click[{asin.lower()}]"]
    assert result.success
    simulator.reset(shop.task(0))
    for action in ("search[scarf]", "click[c000000002]", "click[features]"):
        simulator.step(action)
    actions, result = finish(simulator)
    assert actions[:4] == [
        "click[< prev]",
        "click[< prev]",
        "click[next >]",
        f"click[{asin.lower()}]",
    ]
    assert result.success


def test_a_product_that_no_words_find_is_listed_by_its_query(tmp_path):
    hidden = item(
        "C000000099", "Of the", full_description="", query="thing", small_description=[""]
    )
    hidden["customization_options"] = {}
    about = {"C000000099": {"instruction": "the", "instruction_attributes": ["of the"]}}
    shop = open_shop(write_shop(tmp_path, items=[*ITEMS, hidden], about=about))
    simulator = WebShopSimulator(shop)
    simulator.reset(shop.task(0))
    assert simulator.expert_action() == "search[<q> thing]"
    assert "click[c000000099]" in simulator.step("search[<q> thing]").allowed_actions


def test_the_expert_chooses_what_people_meant(tmp_path):
    shop = open_shop(write_shop(tmp_path, human_goals=True))
    simulator = WebShopSimulator(shop)
    simulator.reset(shop.task(0))
    actions, result = finish(simulator)
    assert actions[2:4] == ["click[navy blue]", "click[s | m]"]
    assert result.success


def test_there_is_nothing_to_do_after_the_end(shop):
    simulator = WebShopSimulator(shop)
    simulator.reset(shop.task(0))
    finish(simulator)
    with pytest.raises(ValueError, match="over"):
        simulator.expert_action()

import random

import numpy as np
import pytest
from small_shop import ITEMS, item, write_shop

from jopd.envs.webshop.goals import NO_PRICE_LIMIT, make_goals
from jopd.envs.webshop.panels import load_panel
from jopd.envs.webshop.settings import WebShopSettings
from jopd.envs.webshop.world import open_shop


@pytest.fixture
def shop(tmp_path):
    return open_shop(write_shop(tmp_path, test_goals=1, eval_goals=1))


def test_a_synthetic_goal_is_made_for_each_choice_of_all_options(shop):
    shirts = [goal for goal in shop.goals if goal.asin == "B000000001"]
    assert sorted(goal.options for goal in shirts) == [
        (("color", "black"), ("size", "s | m")),
        (("color", "navy blue"), ("size", "s | m")),
    ]
    goal = next(goal for goal in shirts if goal.options[0][1] == "black")
    assert goal.instruction == (
        "find a cotton shirt with color: black, and size: s | m, "
        f"and price lower than {goal.price_limit:.2f} dollars"
    )
    assert goal.attributes == ("cotton", "machine wash")


def test_a_product_without_options_has_one_goal_and_one_without_instruction_none(shop):
    assert sorted(goal.asin for goal in shop.goals) == ["B000000001"] * 2 + ["B000000003"]
    (lamp,) = (goal for goal in shop.goals if goal.asin == "B000000003")
    assert lamp.options == ()


def test_the_price_limit_is_a_multiple_of_ten_soon_above_the_price(tmp_path):
    items = [item(f"B{n:09d}", "Shirt", pricing="$24.50") for n in range(40)]
    about = {one["asin"]: {"instruction": "x", "instruction_attributes": ["y"]} for one in items}
    goals = open_shop(write_shop(tmp_path, items=items, about=about)).goals
    assert {goal.price_limit for goal in goals} == {40.0, 50.0, 60.0}


def test_a_price_with_fewer_than_two_limits_above_it_has_none(shop):
    (lamp,) = (goal for goal in shop.goals if goal.asin == "B000000003")
    assert lamp.price_limit == NO_PRICE_LIMIT
    assert lamp.instruction == "find a bright lamp"


def test_people_want_values_without_names_and_requests_without_attributes_are_no_goals(tmp_path):
    shop = open_shop(write_shop(tmp_path, human_goals=True))
    (goal,) = shop.goals
    assert goal.options == ("sky blue", "s | m")
    assert goal.instruction.startswith("I want a blue shirt, and price lower than ")


def test_goals_are_shuffled_in_the_benchmarks_order(tmp_path):
    items = [item(f"B{n:09d}", "Shirt", customization_options={}) for n in range(30)]
    about = {one["asin"]: {"instruction": "x", "instruction_attributes": ["y"]} for one in items}
    shop = open_shop(write_shop(tmp_path, items=items, about=about))
    expected = [one["asin"] for one in items]
    random.seed(233)
    random.shuffle(expected)
    assert [goal.asin for goal in shop.goals] == expected


def test_goals_do_not_depend_on_a_workers_random_state(shop):
    goals = []
    for seed in (1, 2):
        random.seed(seed)
        goals.append(make_goals(shop.products, human=False, seed=233))
    assert goals[0] == goals[1] == shop.goals


def test_splits_of_a_users_shop_are_ranges_of_goal_numbers(shop):
    panels = {split: load_panel(shop, split) for split in ("test", "eval", "train")}
    numbers = [task.index for panel in panels.values() for task in panel.tasks]
    assert numbers == [0, 1, 2]
    assert panels["eval"].tasks[0] == shop.task(1)
    assert len({panel.sha256 for panel in panels.values()}) == 3


def test_a_split_without_goals_is_refused(tmp_path):
    shop = open_shop(write_shop(tmp_path))
    with pytest.raises(ValueError, match=r"no goal is left for the split 'train'.*has 3"):
        load_panel(shop, "train")
    with pytest.raises(ValueError, match="train, eval, test"):
        load_panel(shop, "unseen")


def test_a_task_id_changes_with_the_goal(tmp_path, shop):
    cheaper = [item("B000000001", "Cotton Shirt", pricing="$3"), *ITEMS[1:]]
    other = open_shop(write_shop(tmp_path, items=cheaper))
    changed = [n for n in range(3) if other.task(n).task_id != shop.task(n).task_id]
    assert changed == [n for n in range(3) if shop.goals[n].asin == "B000000001"]


def test_a_shop_without_goals_is_refused(tmp_path):
    with pytest.raises(ValueError, match="no goals"):
        open_shop(write_shop(tmp_path, about={}))


def test_the_gigpo_protocol_evaluates_on_the_first_500_goals_in_its_own_order(tmp_path):
    items = [item(f"B{n:09d}", "Shirt", customization_options={}) for n in range(520)]
    about = {one["asin"]: {"instruction": "x", "instruction_attributes": ["y"]} for one in items}
    settings = {"items": items, "about": about, "protocol": "gigpo", "goals_seed": 0}
    shop = open_shop(write_shop(tmp_path, **settings))
    panels = {split: load_panel(shop, split) for split in ("eval", "train")}
    drawn = np.random.RandomState(1000).choice(range(500), size=128, replace=False)
    assert [task.index for task in panels["eval"].tasks[:128]] == drawn.tolist()
    assert sorted(task.index for task in panels["eval"].tasks) == list(range(500))
    assert [task.index for task in panels["train"].tasks] == list(range(500, 520))
    expected = [one["asin"] for one in items]
    random.Random(0).shuffle(expected)
    assert [goal.asin for goal in shop.goals] == expected
    with pytest.raises(ValueError, match="no test split"):
        load_panel(shop, "test")


def test_the_embedded_shop_keeps_its_panels_whatever_the_protocol():
    with pytest.raises(ValueError, match="fixed panels"):
        WebShopSettings(protocol="gigpo")

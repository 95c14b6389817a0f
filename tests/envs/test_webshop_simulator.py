import random

import pytest
from small_shop import ITEMS, item, write_shop

from jopd.envs.webshop.simulator import WebShopSimulator
from jopd.envs.webshop.transitions import parse_action
from jopd.envs.webshop.world import open_shop
from jopd.panels import Task

LAMP = ITEMS[2]["asin"].lower()
SHIRT = ITEMS[0]["asin"].lower()


@pytest.fixture
def shop(tmp_path):
    many = [item(f"C{n:09d}", "Linen Scarf") for n in range(23)]
    return open_shop(write_shop(tmp_path, items=[*ITEMS, *many], text_mode="text_rich"))


@pytest.fixture
def simulator(shop):
    """At the entrance, wanting a black cotton shirt."""
    number = next(n for n, goal in enumerate(shop.goals) if ("color", "black") in goal.options)
    simulator = WebShopSimulator(shop)
    simulator.reset(shop.task(number))
    return simulator


def play(simulator, *actions):
    result = None
    for action in actions:
        result = simulator.step(action)
    assert result is not None
    return result


TO_SHIRT = ("search[cotton shirt]", f"click[{SHIRT}]")


def test_the_entrance_allows_any_search(simulator, shop):
    result = simulator.reset(shop.task(0))
    assert result.allowed_actions == ("search[<your query>]", "click[search]")
    assert result.instruction == shop.goals[0].instruction
    assert (result.done, result.reward, result.success) == (False, 0.0, False)
    assert simulator.is_allowed("search[anything at all]")
    assert not simulator.is_allowed("search[]")
    assert not simulator.is_allowed("click[buy now]")


def test_buying_the_goal_is_a_success_and_ends_the_episode(simulator):
    result = play(simulator, *TO_SHIRT, "click[black]", "click[s | m]", "click[buy now]")
    assert (result.done, result.reward, result.success) == (True, 1.0, True)
    assert result.allowed_actions == ()


def test_buying_without_the_options_ends_the_episode_without_success(simulator):
    result = play(simulator, *TO_SHIRT, "click[buy now]")
    assert (result.done, result.reward, result.success) == (True, 3 / 5, False)


def test_nothing_changes_after_the_purchase(simulator):
    bought = play(simulator, *TO_SHIRT, "click[buy now]")
    assert play(simulator, "search[lamp]", "click[back to search]", "click[black]") == bought


@pytest.mark.parametrize(
    "action",
    [
        "",
        "buy",
        "click[]",
        "click[search]",
        "click[unknown]",
        "Click[back to search]",
        "click[",
        "[x]",
    ],
)
def test_an_action_that_means_nothing_changes_nothing(simulator, action):
    before = play(simulator, "search[scarf]")
    assert simulator.step(action) == before
    assert action == "click[search]" or not simulator.is_allowed(action)


def test_a_search_works_on_every_page_but_is_allowed_at_the_entrance_only(simulator):
    play(simulator, *TO_SHIRT, "click[black]")
    assert not simulator.is_allowed("search[lamp]")
    result = simulator.step("search[lamp]")
    assert f"click[{LAMP}]" in result.allowed_actions
    assert "You have clicked" not in play(simulator, f"click[{LAMP}]").observation


def test_pages_of_results_are_turned(simulator):
    first = play(simulator, "search[scarf]")
    assert "Page 1 (Total results: 23)" in first.observation
    third = play(simulator, "click[next >]", "click[next >]")
    assert len(third.allowed_actions) == 3 + 3  # back, prev, next and the last three scarfs
    assert play(simulator, "click[< prev]", "click[< prev]") == first


def test_leaving_an_item_forgets_its_options_and_returns_to_the_same_results(simulator):
    play(simulator, "search[scarf]", "click[next >]")
    result = play(simulator, "click[c000000012]", "click[black]", "click[< prev]")
    assert "Page 2 (Total results: 23)" in result.observation
    assert "[clicked button] C000000012 [clicked button_]" in result.observation
    assert "You have clicked" not in play(simulator, "click[c000000012]").observation


def test_options_are_kept_on_sub_pages(simulator):
    before = play(simulator, *TO_SHIRT, "click[black]")
    description = play(simulator, "click[description]")
    assert "Soft to wear." in description.observation
    assert play(simulator, "click[< prev]") == before


def test_a_second_value_of_an_option_replaces_the_first(simulator):
    result = play(simulator, *TO_SHIRT, "click[black]", "click[navy blue]")
    assert result.observation.startswith("You have clicked navy blue.\nInstruction")


def test_back_to_search_is_a_new_start(simulator, shop):
    play(simulator, *TO_SHIRT, "click[black]")
    result = play(simulator, "click[back to search]")
    assert result.allowed_actions == ("search[<your query>]", "click[search]")
    assert "clicked" not in play(simulator, "search[cotton shirt]").observation


def test_an_option_of_two_groups_belongs_to_the_last(tmp_path):
    twice = {
        "Color": [{"value": "black"}, {"value": "red"}],
        "Trim": [{"value": "black"}],
    }
    shop = open_shop(
        write_shop(tmp_path, items=[item("B000000001", "Shirt", customization_options=twice)])
    )
    simulator = WebShopSimulator(shop)
    simulator.reset(shop.task(0))
    play(simulator, "search[shirt]", f"click[{SHIRT}]", "click[red]", "click[black]")
    result = simulator.step("click[buy now]")
    assert '{"color": "red", "trim": "black"}' in result.observation


def test_command_searches_list_by_attribute_category_and_query(simulator):
    assert f"click[{SHIRT}]" in play(simulator, "search[<a> long sleeve]").allowed_actions
    lamps = play(simulator, "search[<q> lamp]")
    assert lamps.allowed_actions == ("click[back to search]", "click[next >]", f"click[{LAMP}]")
    assert "(Total results: 26)" in play(simulator, "search[<c> fashion]").observation
    assert "(Total results: 0)" in play(simulator, "search[<c>]").observation
    assert "(Total results: 0)" in play(simulator, "search[ ]").observation


def test_random_products_depend_on_the_tasks_seed_alone(shop):
    simulator = WebShopSimulator(shop)
    shown = []
    for worker_seed, task_seed in [(1, 7), (2, 7), (1, 8)]:
        random.seed(worker_seed)
        simulator.reset(Task(task_id="t", domain="webshop", index=0, seed=task_seed))
        shown.append(simulator.step("search[<r>]").observation)
    assert shown[0] == shown[1] != shown[2]


def test_a_goal_number_outside_the_shop_is_refused(simulator):
    with pytest.raises(ValueError, match=r"task far: the shop has goals 0 to 2, not 3"):
        simulator.reset(Task(task_id="far", domain="webshop", index=3, seed=0))


@pytest.mark.parametrize(
    ("action", "parsed"),
    [
        ("search[Red Shirt]", ("search", "red shirt")),
        ("search[a][b]", ("search[a]", "b")),
        ("click[x] and more]y", ("click", "x] and more")),
        ("click[a]\nclick[b]", ("click", "a")),
        ("\nclick[a]", ("", "")),
        ("click[[]", ("click", "[")),
        ("search[]]", ("search", "]")),
        ("click", ("", "")),
        ("click[]", ("", "")),
        ("[x]", ("", "")),
        ("", ("", "")),
    ],
)
def test_actions_are_parsed_as_by_the_benchmarks_pattern(action, parsed):
    assert parse_action(action) == parsed

import dataclasses

import pytest
from small_shop import write_shop

from jopd.envs.webshop.reward import content_words, option_matches, purchase_reward
from jopd.envs.webshop.world import open_shop


@pytest.fixture
def shop(tmp_path):
    return open_shop(write_shop(tmp_path))


@pytest.fixture
def goal(shop):
    """Cotton shirt, cotton and machine wash, black and s | m."""
    return next(g for g in shop.goals if ("color", "black") in g.options)


def test_all_of_a_goal_earns_exactly_one(shop, goal):
    reward = purchase_reward(goal, shop.products[0], ["black", "s | m"])
    assert reward.value == 1.0
    assert (reward.attributes, reward.options, reward.price, reward.type_factor) == (2, 2, True, 1)


@pytest.mark.parametrize(
    ("chosen", "expected"), [([], 3 / 5), (["navy blue", "s | m"], 4 / 5), (["black"], 4 / 5)]
)
def test_each_missing_option_costs_its_share(shop, goal, chosen, expected):
    assert purchase_reward(goal, shop.products[0], chosen).value == expected


def test_a_price_above_the_limit_costs_its_share(shop, goal):
    poor = dataclasses.replace(goal, price_limit=20.0)
    assert purchase_reward(poor, shop.products[0], ["black", "s | m"]).value == 4 / 5


def test_attributes_are_found_in_texts_and_in_similar_attributes(shop, goal):
    wants = dataclasses.replace(
        goal,
        attributes=("soft", "made to last", "long sleeves", "silk", "shirt"),
        options=(),
    )
    reward = purchase_reward(wants, shop.products[0], [])
    assert reward.attributes == 4  # all but silk
    assert reward.value == 5 / 6


@pytest.mark.parametrize(
    ("title", "query", "category", "factor"),
    [
        ("a b c d e f g h i j k shirt", "shirts", "x", 0.1),  # 1 of 12 words
        ("a b c d shirt", "other", "x", 0.5),  # 1 of 5 is not more than 0.2
        ("a b c d shirt", "shirts", "x", 1.0),
        ("a b c d shirt", "other", "Shirts › Clothing", 1.0),
        ("a b c d shirt", "other", "Clothing", 0.5),
        ("a b c shirt", "other", "x", 1.0),
        ("a b c", "shirts", "Clothing › Men › Shirts", 0.0),
    ],
)
def test_the_kind_of_product_scales_the_reward(shop, goal, title, query, category, factor):
    wants = dataclasses.replace(goal, title=title, query=query, product_category=category)
    reward = purchase_reward(wants, shop.products[0], [], title_nouns=str.split)
    nouns = purchase_reward(
        wants, shop.products[0], [], title_nouns=lambda text: text.lower().split()
    )
    assert nouns.type_factor == factor
    assert nouns.value == pytest.approx(factor * 3 / 5)
    assert reward.type_factor == 0.0  # "Shirt" and "shirt" are different words to this function


@pytest.mark.parametrize(
    ("value", "wanted", "matches"),
    [
        ("navy blue", "blue sky", True),  # both are blue, the first colour in the list
        ("navy blue", ("color", "navy blue"), True),  # "blue" is one of the pair's words
        ("navy", ("color", "blue"), False),
        ("black", ("color", "black"), True),
        ("large", ("size", "large"), True),
        ("small", ("size", "large"), False),
        ("x-large", ("size", "large"), False),
        ("standard", ("size", "standard"), False),  # holds "tan", as in the benchmark
        ("5 ft", "5 ft.", True),
    ],
)
def test_options_are_compared_by_colour_and_words(value, wanted, matches):
    assert option_matches(value, wanted) is matches


def test_the_default_nouns_are_words_without_stop_words():
    assert content_words("The 2-pack of Men's Oak Desks, 3XL") == [
        "pack",
        "men",
        "s",
        "oak",
        "desks",
        "xl",
    ]

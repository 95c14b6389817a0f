"""The reward of a purchase: how much of the goal the product and the chosen options meet."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from rapidfuzz import fuzz, utils

from jopd.envs.webshop.catalogue import Product
from jopd.envs.webshop.colours import colour_or_self
from jopd.envs.webshop.goals import Goal, GoalOption
from jopd.envs.webshop.text_analysis import STOP_WORDS

FUZZY_THRESHOLD = 85  # percent; a match is better than this

TitleNouns = Callable[[str], list[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reward:
    """What a purchase earned.

    Attributes:
      value: 0 to 1; success is exactly 1.
      type_factor: how far the product is of the wanted kind: 0, 0.1, 0.5 or 1.
      attributes: how many wanted attributes it has.
      options: how many wanted options were chosen.
      price: it costs no more than the goal allows.
    """

    value: float
    type_factor: float
    attributes: int
    options: int
    price: bool


def content_words(title: str) -> list[str]:
    """Lower-case alphabetic words of a title that are no stop words.

    The default of `TitleNouns`. Departs from the benchmark, which takes the nouns and proper nouns
    that a spaCy model finds; this changes the type factor of wrong products only.
    """
    words = re.findall(r"[^\W\d_]+", title.lower())
    return [word for word in words if word not in STOP_WORDS]


def purchase_reward(
    goal: Goal, product: Product, chosen: Iterable[str], *, title_nouns: TitleNouns = content_words
) -> Reward:
    """Scores a purchase.

        value = type_factor * (attributes + options + price) / (wanted attributes + options + 1)

    Args:
      goal: what was wanted.
      product: what was bought.
      chosen: the option values that were chosen.
      title_nouns: the nouns of a title, for comparing kinds of products.
    """
    chosen = list(chosen)
    type_factor = _type_factor(goal, product, title_nouns)
    attributes = sum(_has_attribute(product, wanted) for wanted in goal.attributes)
    options = sum(any(option_matches(value, want) for value in chosen) for want in goal.options)
    price = product.price <= goal.price_limit
    wanted = len(goal.attributes) + len(goal.options) + 1
    return Reward(
        value=(attributes + options + price) / wanted * type_factor,
        type_factor=type_factor,
        attributes=attributes,
        options=options,
        price=price,
    )


def option_matches(value: str, wanted: GoalOption) -> bool:
    """Whether a chosen value is what a goal wants, colours being compared by their first word."""
    return _alike(str(colour_or_self(value)), str(colour_or_self(wanted)))


def _has_attribute(product: Product, wanted: str) -> bool:
    if any(_alike(attribute, wanted) for attribute in product.attributes):
        return True
    texts = (product.title, " ".join(product.bullets), product.description)
    return any(wanted in text.lower() for text in texts)


def _alike(one: str, other: str) -> bool:
    score = fuzz.token_set_ratio(one, other, processor=utils.default_process)
    return round(score) > FUZZY_THRESHOLD


def _type_factor(goal: Goal, product: Product, title_nouns: TitleNouns) -> float:
    """1 for the wanted kind of product, less the less the titles share."""
    wanted = title_nouns(goal.title)
    shared = set(wanted) & set(title_nouns(product.title))
    title_score = len(shared) / len(wanted) if wanted else 0.2
    if title_score == 0:
        return 0.0
    if title_score < 0.1:
        return 0.1
    same_query = product.query == goal.query
    categories = _categories(product.product_category) & _categories(goal.product_category)
    return 1.0 if same_query or len(categories) >= 2 or title_score > 0.2 else 0.5


def _categories(path: str) -> set[str]:
    return {part.strip() for part in path.split("›")}

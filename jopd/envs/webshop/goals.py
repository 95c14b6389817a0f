"""Goals: what a customer of the shop wants, in words and as the reward sees it."""

import hashlib
import itertools
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from jopd.envs.webshop.catalogue import Instruction, Product

NO_PRICE_LIMIT = 1_000_000.0
_PRICE_LIMITS = tuple(10.0 * tens for tens in range(1, 100))
_CANDIDATE_LIMITS = 4  # the limit is one of the first so many multiples of ten above the price

GoalOption = str | tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """What one episode asks for.

    Attributes:
      asin: the product it was made from.
      title: that product's title.
      query: that product's search.
      product_category: that product's categories.
      instruction: the request shown to the agent.
      attributes: what the product must be.
      options: what must be chosen: (name, value) in synthetic goals, a value in people's.
      price_limit: most that the product may cost, in dollars.
    """

    asin: str
    title: str
    query: str
    product_category: str
    instruction: str
    attributes: tuple[str, ...]
    options: tuple[GoalOption, ...]
    price_limit: float

    @property
    def digest(self) -> str:
        """Ten hex digits that change when anything about the goal does."""
        fields = [self.asin, self.title, self.query, self.product_category, self.instruction]
        text = json.dumps([*fields, self.attributes, self.options, self.price_limit])
        return hashlib.sha256(text.encode()).hexdigest()[:10]


def make_goals(products: Sequence[Product], *, human: bool, seed: int) -> tuple[Goal, ...]:
    """All goals of a shop in the benchmark's shuffled order; a goal's number is its place.

    Departs from the benchmark: price limits are drawn from the product's id, not from the process's
    random state, so that goal n asks the same in every run.

    Args:
      products: the shop.
      human: make goals of people's instructions, not of synthetic ones.
      seed: of the shuffle; 233 in the benchmark.
    """
    make = _human_goals if human else _synthetic_goals
    goals = [goal for product in products for goal in make(product)]
    random.Random(seed).shuffle(goals)
    return tuple(goals)


def _human_goals(product: Product) -> Iterator[Goal]:
    for number, instruction in enumerate(product.human_instructions):
        if instruction.attributes:
            limit = _price_limit(product, number)
            text = instruction.text.strip(".")
            yield _goal(product, text, instruction, instruction.options, limit)


def _synthetic_goals(product: Product) -> Iterator[Goal]:
    """One goal for each way to choose all options."""
    if product.instruction is None:
        return
    limit = _price_limit(product, 0)
    names = sorted(product.options)
    for values in itertools.product(*(product.options[name] for name in names)):
        options = tuple(zip(names, values, strict=True))
        wanted = ", and ".join(f"{name}: {value}" for name, value in options)
        text = product.instruction.text + (f" with {wanted}" if wanted else "")
        yield _goal(product, text, product.instruction, options, limit)


def _goal(
    product: Product,
    text: str,
    instruction: Instruction,
    options: tuple[GoalOption, ...],
    limit: float,
) -> Goal:
    limited = limit < NO_PRICE_LIMIT
    return Goal(
        asin=product.asin,
        title=product.title,
        query=product.query,
        product_category=product.product_category,
        instruction=text + (f", and price lower than {limit:.2f} dollars" if limited else ""),
        attributes=instruction.attributes,
        options=options,
        price_limit=limit,
    )


def _price_limit(product: Product, number: int) -> float:
    """The larger of two of the next multiples of ten above the price."""
    candidates = [limit for limit in _PRICE_LIMITS if limit > product.price][:_CANDIDATE_LIMITS]
    if len(candidates) < 2:
        return NO_PRICE_LIMIT
    return max(random.Random(f"limit {number} of {product.asin}").sample(candidates, 2))

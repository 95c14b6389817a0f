"""The shop: products, goals and search index, built once for all simulators of a process."""

import random
from dataclasses import dataclass
from pathlib import Path

from jopd.envs.webshop.catalogue import Product, read_products
from jopd.envs.webshop.embedded import ATTRIBUTES_FILE, ITEMS_FILE, verified
from jopd.envs.webshop.goals import Goal, make_goals
from jopd.envs.webshop.reward import TitleNouns, content_words
from jopd.envs.webshop.search import SearchEngine
from jopd.envs.webshop.settings import WebShopSettings
from jopd.panels import Task

DOMAIN = "webshop"
RESULTS_LIMIT = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class WebShop:
    """A shop; nothing in it changes.

    Attributes:
      settings: what it was opened with.
      products: everything sold, in order of the data file.
      goals: what episodes ask for, by goal number.
      engine: the search index over `products`.
      title_nouns: the nouns of a title, for the reward.
    """

    settings: WebShopSettings
    products: tuple[Product, ...]
    goals: tuple[Goal, ...]
    engine: SearchEngine
    title_nouns: TitleNouns

    def find(self, keywords: tuple[str, ...], *, seed: int) -> tuple[Product, ...]:
        """Everything that a search shows on its pages, best first.

        Four first words are commands: `<r>` shows random products, `<a>`, `<c>` and `<q>` those
        with exactly the attribute, category or query that follows.

        Departs from the benchmark: random products depend on the task's seed and are the same on
        every page.
        """
        command, rest = keywords[0], " ".join(keywords[1:]).strip()
        if command == "<r>":
            count = min(RESULTS_LIMIT, len(self.products))
            return tuple(random.Random(f"products for {seed}").sample(self.products, count))
        if command == "<a>":
            return tuple(product for product in self.products if rest in product.attributes)
        if command == "<c>":
            category = keywords[1].strip() if len(keywords) > 1 else ""
            return tuple(product for product in self.products if product.category == category)
        if command == "<q>":
            return tuple(product for product in self.products if product.query == rest)
        hits = self.engine.search(" ".join(keywords), limit=RESULTS_LIMIT)
        return tuple(self.products[hit] for hit in hits)

    def task(self, number: int) -> Task:
        """The task of goal `number`."""
        return goal_task(number, self.goals[number])


def goal_task(number: int, goal: Goal) -> Task:
    """The task of a goal; its id changes when anything about the goal does."""
    task_id = f"{DOMAIN}/{number}/{goal.digest}"
    return Task(task_id=task_id, domain=DOMAIN, index=number, seed=number)


def open_shop(settings: WebShopSettings, *, title_nouns: TitleNouns = content_words) -> WebShop:
    """Reads the data files, or the embedded ones, and builds the index.

    Raises:
      ValueError: a data file is missing, wrong or, if embedded, changed; or there are no goals.
    """
    items = Path(settings.items_file) if settings.items_file else verified(ITEMS_FILE)
    about = Path(settings.attributes_file) if settings.items_file else verified(ATTRIBUTES_FILE)
    human = settings.human_instructions_file
    products = read_products(
        items, about, Path(human) if human else None, num_products=settings.num_products
    )
    goals = make_goals(products, human=settings.human_goals, seed=settings.goals_seed)
    if not goals:
        raise ValueError(f"{items}: no product has an instruction, so there are no goals")
    return WebShop(
        settings=settings,
        products=products,
        goals=goals,
        engine=SearchEngine([(product.asin, product.index_text) for product in products]),
        title_nouns=title_nouns,
    )

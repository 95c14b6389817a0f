"""An expert who knows the goal's product: for demonstrations, and to label pages with actions."""

from jopd.envs.webshop.catalogue import Product
from jopd.envs.webshop.goals import Goal
from jopd.envs.webshop.pages import (
    BACK_TO_SEARCH,
    BUY_NOW,
    NEXT_PAGE,
    PAGE_SIZE,
    PREVIOUS,
    ItemPage,
    Page,
    ReceiptPage,
    ResultsPage,
    SearchPage,
    SubPage,
)
from jopd.envs.webshop.reward import option_matches
from jopd.envs.webshop.transitions import group_of
from jopd.envs.webshop.world import WebShop


def expert_action(page: Page, *, shop: WebShop, goal: Goal) -> str:
    """The next action of the shortest known way to buy the goal's product with its options.

    Raises:
      ValueError: the episode is over.
    """
    match page:
        case SearchPage():
            return f"search[{best_query(shop, goal)}]"
        case ResultsPage():
            return _click(_on_results(page, shop, goal))
        case ItemPage():
            return _click(_on_item(page, goal))
        case SubPage():
            return _click(PREVIOUS)
        case ReceiptPage():
            raise ValueError("the episode is over: something was bought")


def best_query(shop: WebShop, goal: Goal) -> str:
    """The words that show the goal's product on the earliest page.

    Tried are the goal's own query, its instruction and its title, the first of equally good ones
    being taken; if the engine finds the product with none of them, the command that lists all
    products of the goal's query.
    """
    queries = [goal.query, goal.instruction.lower(), goal.title.lower()]
    pages = {query: _page_of(goal, shop.find(tuple(query.split(" ")), seed=0)) for query in queries}
    found = [query for query in queries if pages[query]]
    return min(found, key=lambda query: pages[query], default=f"<q> {goal.query}")


def _on_results(page: ResultsPage, shop: WebShop, goal: Goal) -> str:
    here = _page_of(goal, page.results)
    if here == page.number:
        return goal.asin
    again = best_query(shop, goal)
    steps_again = 1 + _page_of(goal, shop.find(tuple(again.split(" ")), seed=0))
    if here and abs(here - page.number) <= steps_again:
        return NEXT_PAGE if here > page.number else PREVIOUS
    return BACK_TO_SEARCH


def _on_item(page: ItemPage, goal: Goal) -> str:
    if page.product.asin != goal.asin:
        return PREVIOUS
    wanted = wanted_choices(page.product, goal)
    missing = [value for name, value in wanted.items() if page.chosen.get(name) != value]
    return missing[0] if missing else BUY_NOW


def wanted_choices(product: Product, goal: Goal) -> dict[str, str]:
    """Which value to click of which option; the first wanted value of an option counts."""
    choices: dict[str, str] = {}
    for wanted in goal.options:
        values = [
            value
            for values in product.options.values()
            for value in values
            if option_matches(value, wanted) and group_of(product, value) not in choices
        ]
        exact = [
            value for value in values if value in (wanted if isinstance(wanted, str) else wanted[1])
        ]
        if values:
            best = (exact or values)[0]
            choices[group_of(product, best)] = best
    return choices


def _page_of(goal: Goal, results: tuple[Product, ...]) -> int:
    """The page that shows the goal's product, from 1; 0 if none does."""
    for place, product in enumerate(results):
        if product.asin == goal.asin:
            return 1 + place // PAGE_SIZE
    return 0


def _click(name: str) -> str:
    return f"click[{name.lower()}]"

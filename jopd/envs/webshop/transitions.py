"""What actions do: from page to page."""

from jopd.envs.webshop.catalogue import Product
from jopd.envs.webshop.goals import Goal
from jopd.envs.webshop.pages import (
    BACK_TO_SEARCH,
    BUY_NOW,
    NEXT_PAGE,
    PREVIOUS,
    SEARCH,
    SUB_PAGES,
    ItemPage,
    Page,
    ReceiptPage,
    ResultsPage,
    SearchPage,
    SubPage,
    clickables,
    elements,
)
from jopd.envs.webshop.reward import purchase_reward
from jopd.envs.webshop.world import WebShop

_SUB_PAGES = {name.lower(): name for name in SUB_PAGES}


def parse_action(action: str) -> tuple[str, str]:
    """Verb and argument of `verb[argument]`; two empty strings for anything else.

    The last brackets enclose the argument; text behind them and further lines are ignored; the
    argument is lower-cased.
    """
    line = action.split("\n", 1)[0]
    close = line.rfind("]")
    start = line.rfind("[", 1, max(close - 1, 1))
    if start < 0:
        return "", ""
    return line[:start], line[start + 1 : close].lower()


def is_allowed(page: Page, action: str) -> bool:
    """Whether `action` is a search on the page with the search bar, or a click on what is there."""
    verb, argument = parse_action(action)
    if verb == "search":
        return isinstance(page, SearchPage)
    return verb == "click" and argument in clickables(elements(page, ""))


def next_page(page: Page, action: str, *, shop: WebShop, goal: Goal, seed: int) -> Page:
    """The page after an action; the same one if the action means nothing.

    As in the benchmark, a search works on every page before the last, not only where the search bar
    is, and clicking the search button does nothing.
    """
    verb, argument = parse_action(action)
    if isinstance(page, ReceiptPage):
        return page
    if verb == "search":
        keywords = tuple(argument.split(" "))
        return ResultsPage(keywords, shop.find(keywords, seed=seed), 1)
    if (
        verb == "click"
        and argument in clickables(elements(page, ""))
        and argument != SEARCH.lower()
    ):
        return _click(page, argument, shop, goal)
    return page


def _click(page: Page, name: str, shop: WebShop, goal: Goal) -> Page:
    if name == BACK_TO_SEARCH.lower():
        return SearchPage()
    match page:
        case ResultsPage():
            return _click_on_results(page, name)
        case ItemPage():
            return _click_on_item(page, name, shop, goal)
        case SubPage():
            return page.item
    return page


def _click_on_results(page: ResultsPage, name: str) -> Page:
    if name == NEXT_PAGE.lower():
        return ResultsPage(page.keywords, page.results, page.number + 1)
    if name == PREVIOUS.lower():
        return ResultsPage(page.keywords, page.results, page.number - 1)
    product = next(product for product in page.shown if product.asin.lower() == name)
    return ItemPage(page, product, {})


def _click_on_item(page: ItemPage, name: str, shop: WebShop, goal: Goal) -> Page:
    if name == BUY_NOW.lower():
        chosen = page.chosen.values()
        reward = purchase_reward(goal, page.product, chosen, title_nouns=shop.title_nouns)
        return ReceiptPage(page, reward.value)
    if name == PREVIOUS.lower():
        return page.results
    if name in _SUB_PAGES:
        return SubPage(page, _SUB_PAGES[name])
    return ItemPage(page.results, page.product, page.chosen | {group_of(page.product, name): name})


def group_of(product: Product, value: str) -> str:
    """The option that clicking `value` sets: the last one that has it."""
    return [name for name, values in product.options.items() if value in values][-1]

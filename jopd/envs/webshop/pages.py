"""Pages of the shop: where a customer can be, what is read there, and what can be clicked.

Two text modes, as in the benchmark. `text` joins the texts of a page by " [SEP] "; what is a button
and which options are chosen cannot be seen. `text_rich` has one line for each text, marks buttons,
and says what was clicked.
"""

import enum
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from jopd.envs.webshop.catalogue import Product

PAGE_SIZE = 10
SEARCH = "Search"
BACK_TO_SEARCH = "Back to Search"
NEXT_PAGE = "Next >"
PREVIOUS = "< Prev"
SUB_PAGES = ("Description", "Features", "Reviews")
BUY_NOW = "Buy Now"
_JSON_IN_HTML = {ord(character): f"\\u{ord(character):04x}" for character in "<>&'"}


@dataclass(frozen=True, slots=True)
class SearchPage:
    """The entrance, with the search bar."""


@dataclass(frozen=True, slots=True)
class ResultsPage:
    """Some of the products that a search found.

    Attributes:
      keywords: the words of the search.
      results: everything it found, best first.
      number: which ten of them are shown, from 1.
    """

    keywords: tuple[str, ...]
    results: tuple[Product, ...]
    number: int

    @property
    def shown(self) -> tuple[Product, ...]:
        """The products on this page."""
        return self.results[(self.number - 1) * PAGE_SIZE : self.number * PAGE_SIZE]


@dataclass(frozen=True, slots=True)
class ItemPage:
    """One product, reached from `results`, with the options chosen so far by name."""

    results: ResultsPage
    product: Product
    chosen: dict[str, str]


@dataclass(frozen=True, slots=True)
class SubPage:
    """More about a product: one of SUB_PAGES."""

    item: ItemPage
    name: str


@dataclass(frozen=True, slots=True)
class ReceiptPage:
    """The end: something was bought for `reward`."""

    item: ItemPage
    reward: float


Page = SearchPage | ResultsPage | ItemPage | SubPage | ReceiptPage


class Kind(enum.Enum):
    """What a text on a page is."""

    TEXT = enum.auto()
    BUTTON = enum.auto()
    LINK = enum.auto()
    OPTION = enum.auto()


class Element(NamedTuple):
    """A text on a page."""

    kind: Kind
    text: str


def elements(page: Page, instruction: str) -> list[Element]:
    """The texts of a page, from top to bottom."""
    parsed = ((kind, _as_parsed(text)) for kind, text in _all_elements(page, instruction))
    return [Element(kind, text) for kind, text in parsed if text not in ("", "\n")]


def read_plain(page_elements: list[Element]) -> str:
    """A page in `text` mode."""
    return " [SEP] ".join(element.text.strip() for element in page_elements)


def read_rich(page_elements: list[Element], *, address: str, visited: frozenset[str]) -> str:
    """A page in `text_rich` mode.

    Args:
      page_elements: its texts.
      address: see `address`; options that occur in it in quotes are marked as clicked.
      visited: ids of the products that were looked at since the last new start.
    """
    lines, clicked = [], []
    for kind, text in page_elements:
        if kind is Kind.TEXT:
            lines.append(text)
        elif kind is Kind.BUTTON:
            lines.append(_button(text))
        elif kind is Kind.LINK:
            lines.append("\n" + _button(text, clicked=text in visited))
        elif f'"{text}"' in address:
            lines.append("  " + _button(text, clicked=True))
            clicked.insert(0, f"You have clicked {text}.")
        else:
            lines.append("  " + _button(text))
    return "".join(f"{line}\n" for line in clicked + lines)


def address(page: Page) -> str:
    """The part of a page's address that marks options as clicked.

    It holds the keywords and the chosen options as JSON, so that in the benchmark quoted keywords
    and the names of options count as clicked as well.
    """
    if isinstance(page, ItemPage):
        return "+".join(page.results.keywords) + json.dumps(page.chosen)
    return ""


def clickables(page_elements: list[Element]) -> tuple[str, ...]:
    """What can be clicked, lower-cased: buttons, then products, then options."""
    names = [
        element.text if kind is Kind.OPTION else element.text.lower()
        for kind in (Kind.BUTTON, Kind.LINK, Kind.OPTION)
        for element in page_elements
        if element.kind is kind
    ]
    return tuple(dict.fromkeys(names))


def _button(text: str, *, clicked: bool = False) -> str:
    mark = "clicked button" if clicked else "button"
    return f"[{mark}] {text} [{mark}_]"


def _as_parsed(text: str) -> str:
    """The text as an HTML parser returns it: white space alone is one line break or one space."""
    if not text or text.strip(" \n\t\f\r"):
        return text
    return "\n" if "\n" in text else " "


def _all_elements(page: Page, instruction: str) -> Iterator[tuple[Kind, str]]:
    match page:
        case SearchPage():
            yield Kind.TEXT, "WebShop"
            yield Kind.TEXT, "Instruction: "
            yield Kind.TEXT, instruction
            yield Kind.BUTTON, SEARCH
        case ReceiptPage():
            yield from ((Kind.TEXT, text) for text in _receipt(page))
        case _:
            yield Kind.TEXT, "Instruction:"
            yield Kind.TEXT, instruction
            yield Kind.BUTTON, BACK_TO_SEARCH
            yield from _body(page)


def _body(page: ResultsPage | ItemPage | SubPage) -> Iterator[tuple[Kind, str]]:
    match page:
        case ResultsPage():
            yield from _results(page)
        case ItemPage():
            yield Kind.BUTTON, PREVIOUS
            yield from _item(page.product)
        case SubPage():
            yield Kind.BUTTON, PREVIOUS
            if page.name == "Description":
                yield Kind.TEXT, page.item.product.description
            elif page.name == "Features":
                yield from ((Kind.TEXT, f" {bullet}") for bullet in page.item.product.bullets)


def _results(page: ResultsPage) -> Iterator[tuple[Kind, str]]:
    yield Kind.TEXT, f"Page {page.number} (Total results: {len(page.results)})"
    if page.number > 1:
        yield Kind.BUTTON, PREVIOUS
    yield Kind.BUTTON, NEXT_PAGE
    for product in page.shown:
        yield Kind.LINK, product.asin
        yield Kind.TEXT, product.title
        yield Kind.TEXT, product.price_tag


def _item(product: Product) -> Iterator[tuple[Kind, str]]:
    for name, values in product.options.items():
        yield Kind.TEXT, name
        yield from ((Kind.OPTION, value) for value in values)
    yield Kind.TEXT, product.title
    yield Kind.TEXT, f"Price: {product.price_tag}"
    yield Kind.TEXT, "Rating: N.A."
    yield from ((Kind.BUTTON, name) for name in (*SUB_PAGES, BUY_NOW))


def _receipt(page: ReceiptPage) -> list[str]:
    """The last page; the benchmark leaves most of its fields unfilled."""
    chosen = json.dumps(page.item.chosen, sort_keys=True).translate(_JSON_IN_HTML)
    paid = ["Purchased", "asin", page.item.product.asin, "options", chosen]
    unfilled = ["attrs", "category", "query", "product category"]
    wanted = ["asin", "options", "attrs", "price upper", "instuction text", "category"]
    return [
        "Thank you for shopping with us!",
        "Your code: ",
        "None",
        " (Paste it in your MTurk interface.)",
        *paid,
        *(text for name in unfilled for text in (name, "None")),
        "Target",
        *wanted,
        "product category",
        "query",
        "Goal ",
        "None",
        "Reward",
        "Your score (min 0.0, max 1.0)",
        str(page.reward),
        "Reward Details ",
        "None",
    ]

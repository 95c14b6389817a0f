"""Products of the shop, read from the benchmark's data files."""

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jopd.envs.webshop.records import Record, keyed_objects, listed_records

NO_PRICE = (100.0,)  # what a product without a price costs
NO_ATTRIBUTES = ("DUMMY_ATTR",)
LONGEST_ASIN = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """What a person asked for who wanted a product.

    Attributes:
      text: the request.
      attributes: what the product must be.
      options: what must be chosen.
    """

    text: str
    attributes: tuple[str, ...]
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """One product.

    Attributes:
      asin: its id.
      title: its name.
      category: the department.
      query: the search that it was collected with; products of a kind share it.
      product_category: path of categories, separated by "›".
      description: a text.
      bullets: its features, one text each.
      price: what it costs, in dollars.
      price_tag: what the pages say it costs.
      options: values to choose from, by name of the option.
      attributes: what it is.
      instruction: the synthetic request for it, if there is one.
      human_instructions: people's requests for it.
    """

    asin: str
    title: str
    category: str
    query: str
    product_category: str
    description: str
    bullets: tuple[str, ...]
    price: float
    price_tag: str
    options: Mapping[str, tuple[str, ...]]
    attributes: tuple[str, ...]
    instruction: Instruction | None
    human_instructions: tuple[Instruction, ...]

    @property
    def index_text(self) -> str:
        """What the search engine knows of it."""
        options = [f"{name}: {', '.join(values)}" for name, values in self.options.items()]
        features = self.bullets[0] if self.bullets else ""
        parts = [self.title, self.description, features, ", and ".join(options)]
        return " ".join(parts).lower()


def read_products(
    items_file: Path,
    attributes_file: Path,
    human_instructions_file: Path | None = None,
    *,
    num_products: int = 0,
) -> tuple[Product, ...]:
    """Reads the shop.

    Products whose id is "nan", too long or a repetition are left out, as in the benchmark.

    Departs from the benchmark: a product with a price range has one price, drawn from its id; there
    it is drawn from the process's random state, so that rewards depend on a worker's seed.

    Args:
      items_file: a list of products.
      attributes_file: attributes and synthetic instructions by product id.
      human_instructions_file: lists of people's instructions by product id.
      num_products: how many leading entries of `items_file` to take; 0 for all.

    Raises:
      ValueError: naming the file, the record and the field that are wrong.
    """
    attributes = keyed_objects(attributes_file)
    human = keyed_objects(human_instructions_file) if human_instructions_file else {}
    products: dict[str, Product] = {}
    for record in listed_records(items_file, num_products):
        asin = record.text("asin")
        if asin == "nan" or len(asin) > LONGEST_ASIN or asin in products:
            continue
        about = _object(attributes.get(asin, {}), f"{attributes_file}: asin {asin!r}")
        people = _human_instructions(
            human.get(asin, []), f"{human_instructions_file}: asin {asin!r}"
        )
        products[asin] = _product(record, about, people)
    return tuple(products.values())


def _product(record: Record, about: Record, people: tuple[Instruction, ...]) -> Product:
    prices, price_tag = _prices(record)
    asin = record.text("asin")
    return Product(
        asin=asin,
        title=record.text("name"),
        category=record.text("category"),
        query=record.text("query").lower().strip(),
        product_category=record.text("product_category"),
        description=record.text("full_description"),
        bullets=_bullets(record),
        price=_sale_price(asin, prices),
        price_tag=price_tag,
        options=_options(record),
        attributes=about.texts("attributes") if "attributes" in about.fields else NO_ATTRIBUTES,
        instruction=_synthetic_instruction(about),
        human_instructions=people,
    )


def _bullets(record: Record) -> tuple[str, ...]:
    if isinstance(record.fields.get("small_description"), str):
        return (record.text("small_description"),)
    return record.texts("small_description")


def _prices(record: Record) -> tuple[tuple[float, ...], str]:
    """One price or the two ends of a range, and what the pages print."""
    text = record.optional_text("pricing")
    if not text:
        return NO_PRICE, f"${NO_PRICE[0]}"
    try:
        prices = tuple(float(re.sub(r"[^\d.]", "", part)) for part in text.split("$")[1:])
    except ValueError as error:
        raise record.wrong("pricing", "amounts behind dollar signs") from error
    if not prices:
        raise record.wrong("pricing", "amounts behind dollar signs")
    return prices[:2], " to ".join(f"${price}" for price in prices[:2])


def _sale_price(asin: str, prices: tuple[float, ...]) -> float:
    if len(prices) == 1:
        return prices[0]
    return random.Random(f"price of {asin}").uniform(*prices)


def _options(record: Record) -> dict[str, tuple[str, ...]]:
    groups = record.fields.get("customization_options") or {}
    if not isinstance(groups, dict):
        raise record.wrong("customization_options", "an object")
    options = {}
    for name, choices in groups.items():
        if choices is None:
            continue
        try:
            values = [choice["value"].strip().replace("/", " | ").lower() for choice in choices]
        except (TypeError, KeyError, AttributeError) as error:
            expected = "lists of objects with a string 'value'"
            raise record.wrong("customization_options", expected) from error
        options[name.lower()] = tuple(values)
    return options


def _synthetic_instruction(about: Record) -> Instruction | None:
    if about.fields.get("instruction") is None:
        return None
    attributes = about.texts("instruction_attributes")
    if not attributes:
        raise about.wrong("instruction_attributes", "at least one attribute")
    return Instruction(text=about.text("instruction"), attributes=attributes)


def _human_instructions(entries: Any, where: str) -> tuple[Instruction, ...]:
    if not isinstance(entries, list):
        raise ValueError(f"{where} must hold a list, not {entries!r:.80}")
    records = [_object(entry, f"{where}, entry {place}") for place, entry in enumerate(entries)]
    return tuple(
        Instruction(
            text=record.text("instruction"),
            attributes=record.texts("instruction_attributes"),
            options=record.texts("instruction_options"),
        )
        for record in records
    )


def _object(fields: Any, where: str) -> Record:
    if not isinstance(fields, dict):
        raise ValueError(f"{where} must be an object, not {fields!r:.80}")
    return Record(where, fields)

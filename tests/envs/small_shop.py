"""A shop of three products with readable texts, for tests of goals, pages and rewards."""

import json
from pathlib import Path
from typing import Any

from jopd.envs.webshop.settings import WebShopSettings


def item(asin: str, name: str, **changed: Any) -> dict[str, Any]:
    """A product as the data files have it."""
    fields = {
        "asin": asin,
        "name": name,
        "category": "fashion",
        "query": "Shirts ",
        "product_category": "Clothing › Men › Shirts",
        "full_description": "Soft to wear.",
        "small_description": ["Machine wash", "Made to last"],
        "pricing": "$24.50",
        "customization_options": {
            "Color": [{"value": " Navy Blue", "image": None}, {"value": "Black", "image": None}],
            "Size": [{"value": "S/M", "image": None}],
            "Fit": None,
        },
        "images": ["x.jpg"],
    }
    return fields | changed


ITEMS = [
    item("B000000001", "Cotton Shirt"),
    item("B000000002", "Wool Shirt", pricing="", customization_options=None),
    item(
        "B000000003",
        "Desk Lamp",
        query="lamp",
        product_category="Home › Lamps",
        pricing="$985.00",
        customization_options={},
    ),
]
ABOUT = {
    "B000000001": {
        "attributes": ["cotton", "long sleeve"],
        "instruction": "find a cotton shirt",
        "instruction_attributes": ["cotton", "machine wash"],
    },
    "B000000003": {
        "attributes": ["bright"],
        "instruction": "find a bright lamp",
        "instruction_attributes": ["bright"],
    },
}
PEOPLE = {
    "B000000001": [
        {
            "instruction": "I want a blue shirt.",
            "instruction_attributes": ["cotton"],
            "instruction_options": ["sky blue", "s | m"],
        },
        {"instruction": "Anything", "instruction_attributes": [], "instruction_options": []},
    ]
}


def write_shop(folder: Path, *, items: Any = ITEMS, about: Any = ABOUT, **settings: Any):
    """Writes the data files and returns settings that open them."""
    contents = {"items": items, "about": about, "people": PEOPLE}
    paths = {name: folder / f"{name}.json" for name in contents}
    for name, content in contents.items():
        paths[name].write_text(json.dumps(content))
    return WebShopSettings(
        items_file=str(paths["items"]),
        attributes_file=str(paths["about"]),
        human_instructions_file=str(paths["people"]),
        **settings,
    )

import gzip
import json
import random

import pytest
from small_shop import ABOUT, ITEMS, item, write_shop

from jopd.envs.webshop.catalogue import read_products
from jopd.envs.webshop.settings import WebShopSettings
from jopd.envs.webshop.world import open_shop


def products(tmp_path, items=ITEMS, about=ABOUT):
    return open_shop(write_shop(tmp_path, items=items, about=about)).products


def test_a_product_is_read_as_the_benchmark_reads_it(tmp_path):
    shirt = products(tmp_path)[0]
    assert (shirt.title, shirt.query, shirt.price_tag, shirt.price) == (
        "Cotton Shirt",
        "shirts",
        "$24.5",
        24.5,
    )
    assert shirt.options == {"color": ("navy blue", "black"), "size": ("s | m",)}
    assert shirt.attributes == ("cotton", "long sleeve")
    assert shirt.index_text == (
        "cotton shirt soft to wear. machine wash color: navy blue, black, and size: s | m"
    )


def test_what_is_missing_gets_the_benchmarks_defaults(tmp_path):
    wool = products(tmp_path)[1]
    assert (wool.price, wool.price_tag, wool.options) == (100.0, "$100.0", {})
    assert (wool.attributes, wool.instruction) == (("DUMMY_ATTR",), None)


def test_unusable_and_repeated_ids_are_left_out(tmp_path):
    items = [*ITEMS, item("nan", "x"), item("B0000000001", "too long"), item("B000000001", "again")]
    assert [product.title for product in products(tmp_path, items)] == [
        "Cotton Shirt",
        "Wool Shirt",
        "Desk Lamp",
    ]


def test_only_the_leading_products_are_read_if_asked(tmp_path):
    shop = open_shop(write_shop(tmp_path, num_products=1))
    assert [product.asin for product in shop.products] == ["B000000001"]


@pytest.mark.parametrize(
    ("pricing", "tag", "lowest", "highest"),
    [
        ("$1,299.00", "$1299.0", 1299, 1299),
        ("$5 to $7", "$5.0 to $7.0", 5, 7),
        ("$1.00$2.00$3.00", "$1.0 to $2.0", 1, 2),
        (None, "$100.0", 100, 100),
    ],
)
def test_prices_are_read_from_their_text(tmp_path, pricing, tag, lowest, highest):
    product = products(tmp_path, [item("B000000001", "Shirt", pricing=pricing)])[0]
    assert product.price_tag == tag
    assert lowest <= product.price <= highest


def test_a_price_of_a_range_does_not_depend_on_a_workers_random_state(tmp_path):
    items = [item(f"B00000000{n}", "Shirt", pricing="$5$90") for n in range(1, 5)]
    prices = []
    for seed in (1, 2):
        random.seed(seed)
        prices.append([product.price for product in products(tmp_path, items)])
    assert prices[0] == prices[1]
    assert len(set(prices[0])) == 4


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"name": 3}, "name"),
        ({"asin": None}, "asin"),
        ({"query": None}, "query"),
        ({"full_description": None}, "full_description"),
        ({"small_description": {"a": 1}}, "small_description"),
        ({"pricing": "10.99"}, "pricing"),
        ({"pricing": "$cheap"}, "pricing"),
        ({"customization_options": ["red"]}, "customization_options"),
        ({"customization_options": {"color": [{"image": None}]}}, "customization_options"),
    ],
)
def test_a_wrong_field_is_named_with_its_file_and_record(tmp_path, changed, field):
    items = [ITEMS[0], ITEMS[1] | changed]
    with pytest.raises(ValueError, match=rf"items\.json: record 1 .*{field!r} must be"):
        products(tmp_path, items)


def test_a_wrong_attribute_entry_is_named(tmp_path):
    about = {"B000000001": {"attributes": ["a"], "instruction": "x", "instruction_attributes": []}}
    with pytest.raises(ValueError, match=r"about\.json: asin 'B000000001'.*at least one"):
        products(tmp_path, about=about)


def test_a_missing_or_broken_file_is_named(tmp_path):
    broken = tmp_path / "broken.json"
    broken.write_text("[{")
    with pytest.raises(ValueError, match=r"absent\.json: cannot be read"):
        read_products(broken, tmp_path / "absent.json")
    with pytest.raises(ValueError, match=r"broken\.json: cannot be read as JSON"):
        read_products(broken, broken)


def test_gzipped_files_are_read(tmp_path):
    path = tmp_path / "items.json.gz"
    path.write_bytes(gzip.compress(json.dumps(ITEMS).encode()))
    about = tmp_path / "about.json"
    about.write_text(json.dumps(ABOUT))
    assert len(read_products(path, about)) == 3


@pytest.mark.parametrize(
    "fields",
    [
        {"items_file": "a"},
        {"attributes_file": "a"},
        {"human_goals": True},
        {"items_file": "a", "attributes_file": "b", "human_goals": True},
        {"eval_goals": -1},
    ],
)
def test_settings_that_open_no_shop_are_refused(fields):
    with pytest.raises(ValueError):
        WebShopSettings(**fields)

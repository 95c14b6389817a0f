import dataclasses

import pytest
from small_shop import ITEMS, item, write_shop

from jopd.envs.webshop.pages import (
    ItemPage,
    ReceiptPage,
    ResultsPage,
    SearchPage,
    SubPage,
    address,
    clickables,
    elements,
    read_plain,
    read_rich,
)
from jopd.envs.webshop.world import open_shop


@pytest.fixture
def shirt(tmp_path):
    return open_shop(write_shop(tmp_path)).products[0]


@pytest.fixture
def results(shirt):
    return ResultsPage(("shirt",), (shirt,) * 11, 1)


def plain(page):
    return read_plain(elements(page, "find it"))


def rich(page, visited=()):
    return read_rich(elements(page, "find it"), address=address(page), visited=frozenset(visited))


def test_the_entrance():
    assert plain(SearchPage()) == "WebShop [SEP] Instruction: [SEP] find it [SEP] Search"
    assert rich(SearchPage()) == "WebShop\nInstruction: \nfind it\n[button] Search [button_]\n"
    assert clickables(elements(SearchPage(), "find it")) == ("search",)


def test_a_results_page(shirt):
    page = ResultsPage(("shirt",), (shirt,), 1)
    assert plain(page) == (
        "Instruction: [SEP] find it [SEP] Back to Search [SEP] Page 1 (Total results: 1) [SEP] "
        "Next > [SEP] B000000001 [SEP] Cotton Shirt [SEP] $24.5"
    )
    assert rich(page) == (
        "Instruction:\nfind it\n[button] Back to Search [button_]\nPage 1 (Total results: 1)\n"
        "[button] Next > [button_]\n\n[button] B000000001 [button_]\nCotton Shirt\n$24.5\n"
    )
    assert "\n\n[clicked button] B000000001 [clicked button_]\n" in rich(page, {"B000000001"})
    assert clickables(elements(page, "")) == ("back to search", "next >", "b000000001")


def test_ten_results_are_shown_and_later_pages_lead_back(results):
    assert len(results.shown) == 10
    second = dataclasses.replace(results, number=2)
    assert plain(second).startswith(
        "Instruction: [SEP] find it [SEP] Back to Search [SEP] Page 2 (Total results: 11) [SEP] "
        "< Prev [SEP] Next > [SEP] B000000001"
    )
    beyond = dataclasses.replace(results, number=3)
    assert plain(beyond).endswith("< Prev [SEP] Next >")


def test_an_item_page(results, shirt):
    page = ItemPage(results, shirt, {"color": "black"})
    assert plain(page) == (
        "Instruction: [SEP] find it [SEP] Back to Search [SEP] < Prev [SEP] color [SEP] navy blue "
        "[SEP] black [SEP] size [SEP] s | m [SEP] Cotton Shirt [SEP] Price: $24.5 [SEP] "
        "Rating: N.A. [SEP] Description [SEP] Features [SEP] Reviews [SEP] Buy Now"
    )
    assert rich(page) == (
        "You have clicked black.\nInstruction:\nfind it\n[button] Back to Search [button_]\n"
        "[button] < Prev [button_]\ncolor\n  [button] navy blue [button_]\n"
        "  [clicked button] black [clicked button_]\nsize\n  [button] s | m [button_]\n"
        "Cotton Shirt\nPrice: $24.5\nRating: N.A.\n[button] Description [button_]\n"
        "[button] Features [button_]\n[button] Reviews [button_]\n[button] Buy Now [button_]\n"
    )
    assert clickables(elements(page, "")) == (
        *("back to search", "< prev", "description", "features", "reviews", "buy now"),
        *("navy blue", "black", "s | m"),
    )


def test_the_latest_option_of_the_page_is_reported_first(results, shirt):
    page = ItemPage(results, shirt, {"color": "black", "size": "s | m"})
    assert rich(page).startswith("You have clicked s | m.\nYou have clicked black.\nInstruction:")


def test_quoted_keywords_count_as_clicked_options(results, shirt):
    quoting = dataclasses.replace(results, keywords=('"black"', "shirt"))
    assert rich(ItemPage(quoting, shirt, {})).startswith("You have clicked black.\n")


def test_sub_pages(results, shirt):
    page = ItemPage(results, shirt, {})
    start = "Instruction: [SEP] find it [SEP] Back to Search [SEP] < Prev"
    assert plain(SubPage(page, "Description")) == f"{start} [SEP] Soft to wear."
    assert plain(SubPage(page, "Features")) == f"{start} [SEP] Machine wash [SEP] Made to last"
    assert plain(SubPage(page, "Reviews")) == start
    assert rich(SubPage(page, "Features")).endswith("\n Machine wash\n Made to last\n")
    assert clickables(elements(SubPage(page, "Reviews"), "")) == ("back to search", "< prev")


def test_the_receipt(results, shirt):
    page = ReceiptPage(ItemPage(results, shirt, {"size": "men's", "color": "black"}), 0.75)
    assert plain(page).split(" [SEP] ") == [
        "Thank you for shopping with us!",
        *("Your code:", "None", "(Paste it in your MTurk interface.)"),
        *("Purchased", "asin", "B000000001"),
        *("options", '{"color": "black", "size": "men\\u0027s"}'),
        *("attrs", "None", "category", "None", "query", "None", "product category", "None"),
        *("Target", "asin", "options", "attrs", "price upper", "instuction text"),
        *("category", "product category", "query", "Goal", "None"),
        *("Reward", "Your score (min 0.0, max 1.0)", "0.75", "Reward Details", "None"),
    ]
    assert clickables(elements(page, "")) == ()


def test_blank_texts_are_shown_as_an_html_parser_leaves_them(tmp_path, results):
    odd = item(
        "B000000009", "Odd", full_description=" \n ", small_description=["", " \n", " a", "b "]
    )
    product = open_shop(write_shop(tmp_path, items=[*ITEMS, odd])).products[3]
    page = ItemPage(results, product, {})
    assert plain(SubPage(page, "Description")).endswith("< Prev")
    assert plain(SubPage(page, "Features")).endswith("< Prev [SEP]  [SEP] a [SEP] b")
    assert rich(SubPage(page, "Features")).endswith("< Prev [button_]\n \n  a\n b \n")

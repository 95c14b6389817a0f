import gzip
import json
import re
import shutil

import pytest

from jopd.envs.factory import make_simulator, open_environment
from jopd.envs.webshop import embedded
from jopd.envs.webshop.generate import make_catalogue
from jopd.envs.webshop.panels import SPLITS, load_panel
from jopd.envs.webshop.reward import purchase_reward
from jopd.envs.webshop.settings import WebShopSettings
from jopd.envs.webshop.world import open_shop
from jopd.panels import read_panel


@pytest.fixture(scope="module")
def shop():
    return open_shop(WebShopSettings())


@pytest.fixture(scope="module")
def goals_of(shop):
    """Goals of each split's panel."""
    return {
        split: [shop.goals[task.index] for task in load_panel(shop, split).tasks]
        for split in SPLITS
    }


def test_the_embedded_catalogue_is_what_the_generator_makes():
    for name, content in zip(
        (embedded.ITEMS_FILE, embedded.ATTRIBUTES_FILE), make_catalogue(), strict=True
    ):
        stored = gzip.decompress(embedded.verified(name).read_bytes())
        assert json.loads(stored) == content


def test_panels_have_the_promised_sizes_and_share_no_goal(shop, goals_of):
    assert len(shop.products) == 1000
    assert len(goals_of["train"]) >= 3000
    assert len(goals_of["eval"]) == 256
    assert len(goals_of["test"]) >= 128
    everything = [goal.digest for goals in goals_of.values() for goal in goals]
    assert len(set(everything)) == len(everything) == len(shop.goals)


def test_no_training_goal_is_of_a_test_product_and_every_eval_product_is_known(goals_of):
    products = {split: {goal.asin for goal in goals} for split, goals in goals_of.items()}
    assert not products["test"] & (products["train"] | products["eval"])
    assert products["eval"] <= products["train"]
    assert len(products["eval"]) == 256


def test_only_the_goals_own_product_earns_all_of_it(shop, goals_of):
    for goal in goals_of["eval"][:8]:
        wanted = [value for _, value in goal.options]
        full = {
            product.asin
            for product in shop.products
            if purchase_reward(goal, product, wanted).value == 1.0
        }
        assert full == {goal.asin}


def test_a_wrong_option_of_the_right_product_costs_something(shop, goals_of):
    products = {product.asin: product for product in shop.products}
    for goal in goals_of["train"][:100]:
        product = products[goal.asin]
        for name, value in goal.options:
            others = [other for other in product.options[name] if other != value]
            kept = [chosen for chosen_name, chosen in goal.options if chosen_name != name]
            for other in others:
                assert purchase_reward(goal, product, [*kept, other]).value < 1.0


def test_look_alikes_stand_beside_the_goals_product_on_one_page(shop):
    found = {goal.query: shop.find((goal.query,), seed=0) for goal in shop.goals}
    assert max(map(len, found.values())) <= 10
    for goal in shop.goals:
        assert goal.asin in {product.asin for product in found[goal.query]}
    assert sum(len(found[goal.query]) > 3 for goal in shop.goals) / len(shop.goals) > 0.99


def test_the_vocabulary_suits_a_tiny_model(shop):
    texts = [f"{p.index_text} {p.price_tag} {p.asin} {' '.join(p.bullets)}" for p in shop.products]
    texts += [goal.instruction for goal in shop.goals]
    words = {word for text in texts for word in re.findall(r"\d+\.\d+|\w+", text.lower())}
    assert len(words) < 1300


def test_instructions_are_short(shop):
    assert max(len(goal.instruction.split()) for goal in shop.goals) <= 20


def test_a_changed_data_file_is_refused(tmp_path):
    shutil.copytree(embedded.DATA_FOLDER, tmp_path / "data")
    folder = tmp_path / "data"
    assert embedded.verified(embedded.ITEMS_FILE, folder).is_file()
    (folder / embedded.ITEMS_FILE).write_bytes(b"other")
    with pytest.raises(ValueError, match=r"webshop_items\.json\.gz has changed: its sha256 is"):
        embedded.verified(embedded.ITEMS_FILE, folder)
    (folder / embedded.ITEMS_FILE).unlink()
    with pytest.raises(ValueError, match=r"webshop_items\.json\.gz is missing"):
        embedded.verified(embedded.ITEMS_FILE, folder)
    with pytest.raises(ValueError, match="no hash of other"):
        embedded.recorded_sha256("other", folder)


def test_a_changed_panel_is_refused(tmp_path):
    name = embedded.PANELS["eval"]
    lines = (embedded.DATA_FOLDER / name).read_text().splitlines()
    (tmp_path / name).write_text("\n".join(lines[:-1]) + "\n")
    with pytest.raises(ValueError, match=r"webshop_eval\.tsv has changed"):
        read_panel(tmp_path / name, sha256=embedded.recorded_sha256(name))


def test_a_panel_of_other_goals_is_refused():
    fewer = open_shop(WebShopSettings(num_products=100))
    with pytest.raises(ValueError, match="data files and panels must be made together"):
        load_panel(fewer, "eval")


def test_the_factory_opens_one_shop_for_all_simulators():
    environment = open_environment(WebShopSettings())
    panel = environment.load_panel("eval")
    one, other = environment.make_simulator(), environment.make_simulator()
    assert one.reset(panel.tasks[0]) == other.reset(panel.tasks[0])
    one.step(one.expert_action())
    assert other.expert_action().startswith("search[")


def test_the_factory_also_opens_for_a_single_use():
    panel = open_environment(WebShopSettings()).load_panel("eval")
    assert make_simulator(WebShopSettings()).reset(panel.tasks[0]).instruction

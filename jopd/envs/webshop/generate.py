"""The embedded shop: a small made-up catalogue in the benchmark's data format.

Every kind of product (a word like "kettle") is made of one material and sold in a few colours, so
that a search for the kind shows the wanted product among look-alikes of another colour, which earn
much of the reward. A product's id is the number of its kind and its colour, "173.teal", so that a
tiny model can choose one by reading; texts are short and the vocabulary is small for the same
reason.
"""

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

SEED = 20260901
NUM_PRODUCTS = 1000
COLOURS = (
    *("black", "blue", "brown", "gray", "green", "orange"),
    *("pink", "purple", "red", "teal", "white", "yellow"),
)
PRICES = (8.99, 12.99, 16.99, 21.99, 24.99, 28.99, 33.99, 36.99, 42.99, 48.99)
SIZES = ("small", "medium", "large")
CARE = ("easy care", "gift ready", "long lasting", "new season")
OPENINGS = ("find", "i want", "buy me")
NUM_COLOURS = (6, 5, 8, 7, 5, 7, 6, 6, 7, 7)  # of a kind: six products of a kind on average


@dataclass(frozen=True, slots=True, kw_only=True)
class Department:
    """Kinds of products that are made of the same materials and chosen by the same option.

    Attributes:
      name: the category.
      kinds: one word each, split by spaces.
      materials: what they are made of.
      option: a further option beside the size, and its values; half of the products have it.
    """

    name: str
    kinds: str
    materials: tuple[str, ...]
    option: tuple[str, tuple[str, ...]]


DEPARTMENTS = (
    Department(
        name="clothing",
        kinds=(
            "shirt jacket scarf sweater dress skirt vest hoodie blouse cardigan robe apron shawl "
            "poncho kimono tunic leggings shorts trousers socks gloves mittens cap beanie beret "
            "bowtie overalls pajamas swimsuit bathrobe blazer jumper raincoat sash bonnet"
        ),
        materials=("cotton", "wool", "linen", "silk"),
        option=("fit", ("slim", "regular", "loose")),
    ),
    Department(
        name="kitchen",
        kinds=(
            "mug bowl plate teapot kettle pitcher vase saucer tray platter jar canister ladle "
            "spatula whisk colander grater tongs coaster trivet goblet tumbler carafe ramekin "
            "skillet saucepan thermos breadbox dispenser strainer rack funnel scoop"
        ),
        materials=("ceramic", "glass", "steel", "bamboo"),
        option=("finish", ("matte", "glossy")),
    ),
    Department(
        name="furniture",
        kinds=(
            "table chair desk bench stool shelf bookcase dresser nightstand cabinet wardrobe "
            "ottoman crib hutch sofa armchair sideboard footrest headboard bookend easel podium "
            "lectern recliner cupboard drawer chest divider"
        ),
        materials=("oak", "pine", "maple", "metal"),
        option=("shape", ("round", "square")),
    ),
    Department(
        name="bedroom",
        kinds=(
            "blanket pillow curtain towel quilt rug cushion tablecloth napkin bedspread duvet "
            "hammock bolster mattress canopy tapestry doormat washcloth pillowcase comforter "
            "slipcover valance runner"
        ),
        materials=("velvet", "fleece", "jersey", "satin"),
        option=("pattern", ("plain", "dotted")),
    ),
    Department(
        name="luggage",
        kinds=(
            "backpack wallet purse tote satchel suitcase briefcase duffel pouch handbag lunchbox "
            "holster sling knapsack clutch organizer boots sandals sneakers slippers loafers "
            "moccasins clogs belt"
        ),
        materials=("leather", "canvas", "nylon", "suede"),
        option=("style", ("modern", "classic")),
    ),
    Department(
        name="hobby",
        kinds=(
            "ball puzzle kite drum dollhouse yoyo lamp clock lantern mirror frame candle "
            "birdhouse flute guitar tent compass whistle paddle helmet racket domino checkers"
        ),
        materials=("wooden", "plastic", "rubber", "foam"),
        option=("pack", ("single", "double")),
    ),
)


def make_catalogue() -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The content of the items file and of the attributes file; the same one every time."""
    rng = random.Random(SEED)
    models = list(itertools.islice(_models(rng), NUM_PRODUCTS))
    rng.shuffle(models)
    items, about = [], {}
    for number, department, kind, colour, material in models:
        asin = f"{number}.{colour}"
        care = rng.choice(CARE)
        items.append(_item(rng, asin, department, kind, colour, material, care))
        about[asin] = {
            "attributes": [colour, material, kind, care],
            "instruction": f"{rng.choice(OPENINGS)} {colour} {material} {kind}",
            "instruction_attributes": [colour, material, kind],
        }
    return items, about


def _models(rng: random.Random) -> Iterator[tuple[int, Department, str, str, str]]:
    """Departments with kinds in turn, each kind of one number and material in some colours."""
    kinds = [(department, kind) for department in DEPARTMENTS for kind in department.kinds.split()]
    rng.shuffle(kinds)
    numbers = rng.sample(range(100, 1000), len(kinds))
    for number, (department, kind), num_colours in zip(
        numbers, kinds, itertools.cycle(NUM_COLOURS), strict=False
    ):
        material = rng.choice(department.materials)
        for colour in rng.sample(COLOURS, num_colours):
            yield number, department, kind, colour, material


def _item(
    rng: random.Random,
    asin: str,
    department: Department,
    kind: str,
    colour: str,
    material: str,
    care: str,
) -> dict[str, Any]:
    options = {"size": _some(rng, SIZES)}
    if rng.random() < 0.5:
        name, values = department.option
        options[name] = _some(rng, values)
    return {
        "asin": asin,
        "name": f"{colour} {material} {kind}",
        "category": department.name,
        "query": kind,
        "product_category": f"shop › {department.name} › {kind}",
        "full_description": f"{kind} of {material} in {colour}",
        "small_description": [care],
        "pricing": f"${rng.choice(PRICES)}",
        "customization_options": {
            name: [{"value": value, "image": None} for value in values]
            for name, values in options.items()
        },
        "images": [None],
    }


def _some(rng: random.Random, values: tuple[str, ...]) -> list[str]:
    """Two or three of the values, in their order."""
    return sorted(rng.sample(values, rng.randint(2, len(values))), key=values.index)

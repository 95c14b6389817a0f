"""Settings of the WebShop environment."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class WebShopSettings:
    """Which shop to open and how to show it.

    Attributes:
      domain: names this environment; tasks and turns carry it.
      items_file: products in the benchmark's own format, which may be gzipped:
        `items_shuffle_1000.json` for the shop of 1,000 products, `items_shuffle.json` for the whole
        one; empty for the embedded shop with its fixed panels.
      attributes_file: attributes and instructions, `items_ins_v2_1000.json` or `items_ins_v2.json`.
      human_instructions_file: instructions by people (`items_human_ins.json`).
      human_goals: goals from people's instructions instead of synthetic ones.
      num_products: how many leading products of `items_file` to open; 0 for all.
      text_mode: how pages read; see `pages`.
      protocol: "original" splits goals into test, eval and train, in this order; "gigpo", as
        teachers trained with verl-agent know it, evaluates on the first 500, drawn in an order
        that depends on the seed, and trains on all others.
      goals_seed: of the shuffle of all goals; 233 in the benchmark, the run's own in "gigpo".
      test_goals: the first so many goals, after the shuffle, are the test split ("original").
      eval_goals: so many following goals are the eval split; all others are for training.
    """

    domain: Literal["webshop"] = "webshop"
    items_file: str = ""
    attributes_file: str = ""
    human_instructions_file: str = ""
    human_goals: bool = False
    num_products: int = 0
    text_mode: Literal["text", "text_rich"] = "text"
    protocol: Literal["original", "gigpo"] = "original"
    goals_seed: int = 233
    test_goals: int = 500
    eval_goals: int = 1000

    def __post_init__(self):
        """Refuses combinations that open no shop."""
        if self.items_file and not self.attributes_file:
            raise ValueError("attributes_file is needed beside items_file")
        if self.human_goals and not (self.items_file and self.human_instructions_file):
            raise ValueError("human_goals needs items_file and human_instructions_file")
        if not self.items_file and (self.attributes_file or self.human_instructions_file):
            raise ValueError("items_file is needed beside the other data files")
        if not self.items_file and (self.protocol, self.goals_seed) != ("original", 233):
            raise ValueError(
                "the embedded shop has fixed panels: protocol and goals_seed are for items_file"
            )
        if min(self.num_products, self.test_goals, self.eval_goals) < 0:
            raise ValueError("num_products, test_goals and eval_goals must not be negative")

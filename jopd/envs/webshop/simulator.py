"""The WebShop environment: one customer in a shared shop."""

from jopd.envs.base import StepResult
from jopd.envs.webshop.expert import expert_action
from jopd.envs.webshop.pages import (
    ItemPage,
    Page,
    ReceiptPage,
    SearchPage,
    address,
    clickables,
    elements,
    read_plain,
    read_rich,
)
from jopd.envs.webshop.transitions import is_allowed, next_page
from jopd.envs.webshop.world import WebShop
from jopd.panels import Task

SEARCH_FORM = "search[<your query>]"  # how allowed actions show that any words may be searched


class WebShopSimulator:
    """Plays one task at a time.

    Allowed actions are `search[<your query>]`, standing for any words, where the search bar is,
    then `click[x]` for everything that can be clicked, in the benchmark's order.
    """

    def __init__(self, shop: WebShop):
        self._shop = shop
        self._enter(0, 0)

    def reset(self, task: Task) -> StepResult:
        """Starts the episode of goal `task.index`.

        Raises:
          ValueError: the shop has no such goal.
        """
        if not 0 <= task.index < len(self._shop.goals):
            raise ValueError(
                f"task {task.task_id}: the shop has goals 0 to {len(self._shop.goals) - 1}, "
                f"not {task.index}"
            )
        self._enter(task.index, task.seed)
        return self._result()

    def step(self, action: str) -> StepResult:
        """Acts; an action that means nothing, or comes after the purchase, changes nothing."""
        page = next_page(self._page, action, shop=self._shop, goal=self._goal, seed=self._seed)
        if page is not self._page:
            self._visited = self._visited_after(page)
            self._page = page
        return self._result()

    def is_allowed(self, action: str) -> bool:
        """Whether the action is well formed and possible now."""
        return is_allowed(self._page, action)

    def expert_action(self) -> str:
        """The next action towards a full reward, from any page.

        Raises:
          ValueError: the episode is over.
        """
        return expert_action(self._page, shop=self._shop, goal=self._goal)

    def _enter(self, goal_number: int, seed: int) -> None:
        self._goal = self._shop.goals[goal_number]
        self._seed = seed
        self._page: Page = SearchPage()
        self._visited: frozenset[str] = frozenset()

    def _visited_after(self, page: Page) -> frozenset[str]:
        match page:
            case SearchPage():
                return frozenset()
            case ItemPage():
                return self._visited | {page.product.asin}
        return self._visited

    def _result(self) -> StepResult:
        page, instruction = self._page, self._goal.instruction
        texts = elements(page, instruction)
        if self._shop.settings.text_mode == "text_rich":
            observation = read_rich(texts, address=address(page), visited=self._visited)
        else:
            observation = read_plain(texts)
        search = (SEARCH_FORM,) if isinstance(page, SearchPage) else ()
        reward = page.reward if isinstance(page, ReceiptPage) else 0.0
        return StepResult(
            observation=observation,
            instruction=instruction,
            allowed_actions=search + tuple(f"click[{name}]" for name in clickables(texts)),
            done=isinstance(page, ReceiptPage),
            reward=reward,
            success=reward == 1.0,
        )

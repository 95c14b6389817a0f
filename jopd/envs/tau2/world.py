"""The package's part of a domain: tasks, databases, tools and policy, each loaded once."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from pydantic import BaseModel
from tau2.data_model.tasks import Task as Tau2Task
from tau2.domains.retail import environment as retail
from tau2.domains.retail.utils import RETAIL_TASK_SET_PATH
from tau2.domains.telecom import environment as telecom
from tau2.domains.telecom.utils import TELECOM_TASK_SET_PATH
from tau2.environment.environment import Environment
from tau2.environment.tool import Tool
from tau2.utils import DATA_DIR

from jopd.envs.tau2.settings import Domain

GREETING = "Hi! How can I help you today?"  # the package's fixed first message
_RULES = f"""You serve customers of a company. You have greeted one with "{GREETING}".
Send either a message to the customer or tool calls, never both at once. Follow the policy.

<policy>
{{policy}}
</policy>"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolbox:
    """The tools of one side.

    Attributes:
      schemas: JSON schema of each tool.
      params: what arguments each tool takes, by its name.
    """

    schemas: tuple[str, ...]
    params: Mapping[str, type[BaseModel]]


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A domain.

    Attributes:
      make_environment: opens databases and tools anew.
      tasks: the tasks of the splits "train" and "test", by the package's ids.
      instruction: what the agent must know.
      agent: the agent's tools.
      user: the customer's tools.
      guidelines: what a model that plays the customer must know beside its scenario.
    """

    make_environment: Callable[..., Environment]
    tasks: Mapping[str, Tau2Task]
    instruction: str
    agent: Toolbox
    user: Toolbox
    guidelines: str


def split_ids(domain: Domain, split: str) -> list[str]:
    """Ids of the tasks of a split of the package, in its file's order."""
    path = _task_file(domain)
    return json.loads((path.parent / f"split_{path.name}").read_text())[split]


@lru_cache(maxsize=2)
def open_world(domain: Domain) -> World:
    """Loads a domain, once in each process."""
    make_environment = {"retail": retail.get_environment, "telecom": telecom.get_environment}[
        domain
    ]
    environment = make_environment()
    user_tools = environment.get_user_tools() if environment.user_tools else []
    guidelines = "simulation_guidelines_tools.md" if user_tools else "simulation_guidelines.md"
    return World(
        make_environment=make_environment,
        tasks=_load_tasks(domain),
        instruction=_RULES.format(policy=environment.get_policy()),
        agent=_toolbox(environment.get_tools()),
        user=_toolbox(user_tools),
        guidelines=(DATA_DIR / "tau2" / "user_simulator" / guidelines).read_text(),
    )


def _task_file(domain: Domain) -> Path:
    return Path(RETAIL_TASK_SET_PATH if domain == "retail" else TELECOM_TASK_SET_PATH)


def _load_tasks(domain: Domain) -> dict[str, Tau2Task]:
    wanted = {*split_ids(domain, "train"), *split_ids(domain, "test")}
    content = json.loads(_task_file(domain).read_text())
    return {task["id"]: Tau2Task.model_validate(task) for task in content if task["id"] in wanted}


def _toolbox(tools: Sequence[Tool]) -> Toolbox:
    return Toolbox(
        schemas=tuple(json.dumps(tool.openai_schema) for tool in tools),
        params={tool.name: tool.params for tool in tools},
    )

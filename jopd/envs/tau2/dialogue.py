"""A conversation of an agent, a customer and a database, one message at a time.

Whoever speaks next calls `step`: the agent or the customer. Tool calls go to the database, and
their results back to the caller; words go to the other side.
"""

from typing import Literal

from pydantic import ValidationError
from tau2.data_model.message import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage
from tau2.data_model.tasks import Task as Tau2Task
from tau2.environment.environment import Environment

from jopd.envs.tau2.heard import Heard, Side
from jopd.envs.tau2.messages import Call, SentMessage, read_message
from jopd.envs.tau2.reference import next_message
from jopd.envs.tau2.reward import reward_of
from jopd.envs.tau2.settings import Tau2Settings
from jopd.envs.tau2.world import GREETING, Toolbox, open_world
from jopd.panels import Task

STOP = "###STOP###"
USER_STOPS = (STOP, "###TRANSFER###", "###OUT-OF-SCOPE###")
_REQUESTORS: dict[Side, Literal["assistant", "user"]] = {"agent": "assistant", "user": "user"}
_REFUSED = "powers are not supported"  # some would take for ever to compute


class Dialogue:
    """One conversation at a time; it is a Simulator whose actions come from both sides.

    Attributes:
      task: the package's task.
      record: all messages so far, as the package's evaluation reads them. Messages that were not
        understood are not in it.
    """

    task: Tau2Task
    record: list[Message]
    _environment: Environment

    def __init__(self, settings: Tau2Settings):
        self._settings = settings
        self._world = open_world(settings.domain)

    def reset(self, task: Task) -> Heard:
        """Opens the task's database; the customer hears the greeting."""
        self.task = self._world.tasks[task.task_id.partition("/")[2]]
        self.record = [AssistantMessage(role="assistant", content=GREETING)]
        self._awaited: Side = "user"
        self._steps = self._errors = self._calls = 0
        self._done, self._reward = False, 0.0
        self._environment = self._world.make_environment()
        initial = self.task.initial_state
        self._environment.set_state(
            initial.initialization_data if initial else None,
            initial.initialization_actions if initial else None,
            [],
        )
        return self._heard(GREETING, "user")

    def step(self, action: str) -> Heard:
        """The awaited side's message."""
        message = read_message(action)
        fault = message.fault or _refusal(message.calls)
        self._steps += 1
        if fault:
            self._errors += 1
            heard = f"Error: {fault}", "tool"
        else:
            heard = self._deliver(message)
        if not self._done and self._is_too_long():
            self._done = True
        return self._heard(*heard)

    def is_allowed(self, action: str) -> bool:
        """Whether the message is well formed, its tools exist and their arguments fit."""
        message = read_message(action)
        if message.fault or _refusal(message.calls):
            return False
        return all(_fits(self._toolbox, call) for call in message.calls)

    def expert_action(self) -> str:
        """The agent's next message on the way of the task's reference actions."""
        return next_message(self.task, self.record)

    @property
    def _toolbox(self) -> Toolbox:
        return self._world.agent if self._awaited == "agent" else self._world.user

    def _is_too_long(self) -> bool:
        return self._steps >= self._settings.max_steps or self._errors >= self._settings.max_errors

    def _deliver(self, message: SentMessage) -> tuple[str, Literal["user", "tool"]]:
        calls = [self._tool_call(call) for call in message.calls]
        if self._awaited == "agent":
            said = AssistantMessage(
                role="assistant", content=message.text, tool_calls=calls or None
            )
        else:
            said = UserMessage(role="user", content=message.text, tool_calls=calls or None)
        self.record.append(said)
        if calls:
            self._steps += 1
            return "\n".join(self._answer(call) for call in calls), "tool"
        stops = (STOP,) if self._awaited == "agent" else USER_STOPS
        if any(stop in message.text for stop in stops):
            self._done = True
            self._reward = reward_of(self._world, self.task, self.record)
        self._awaited = "user" if self._awaited == "agent" else "agent"
        return message.text, "user"

    def _tool_call(self, call: Call) -> ToolCall:
        self._calls += 1
        return ToolCall(
            id=f"call_{self._calls}",
            name=call.name,
            arguments=call.arguments,
            requestor=_REQUESTORS[self._awaited],
        )

    def _answer(self, call: ToolCall) -> str:
        answer: ToolMessage = self._environment.get_response(call)
        self._errors += answer.error
        self.record.append(answer)
        return answer.content or ""

    def _heard(self, observation: str, role: Literal["user", "tool"]) -> Heard:
        of_agent = self._awaited == "agent" or self._done
        customer = f"{self._world.guidelines}\n\n<scenario>\n{self.task.user_scenario}\n</scenario>"
        return Heard(
            observation=observation,
            instruction=self._world.instruction if of_agent else customer,
            allowed_actions=(),
            done=self._done,
            reward=self._reward,
            success=self._reward == 1,
            role=role,
            tools=(self._world.agent if of_agent else self._world.user).schemas,
            awaited=self._awaited,
        )


def _refusal(calls: tuple[Call, ...]) -> str:
    """Why calls that the package would accept are not made; "" if they are."""
    heavy = any(call.name == "calculate" and "**" in str(call.arguments) for call in calls)
    return _REFUSED if heavy else ""


def _fits(toolbox: Toolbox, call: Call) -> bool:
    params = toolbox.params.get(call.name)
    if params is None or not call.arguments.keys() <= params.model_fields.keys():
        return False
    try:
        params.model_validate(call.arguments)
    except ValidationError:
        return False
    return True

"""tau2-bench with a scripted customer: the agent's side of a dialogue."""

from jopd.envs.tau2.dialogue import Dialogue
from jopd.envs.tau2.heard import Heard
from jopd.envs.tau2.settings import Tau2Settings
from jopd.envs.tau2.user import ScriptedUser
from jopd.envs.tau2.world import open_world
from jopd.panels import Task


class Tau2Simulator:
    """A Simulator for the agent; the customer answers inside."""

    def __init__(self, settings: Tau2Settings):
        self._settings = settings
        self._dialogue = Dialogue(settings)

    def reset(self, task: Task) -> Heard:
        """Starts the conversation; the first observation is what the customer wants."""
        heard = self._dialogue.reset(task)
        toolbox = open_world(self._settings.domain).user
        self._user = ScriptedUser(
            self._dialogue.task, toolbox, patience=self._settings.user_patience
        )
        return self._until_agent(heard)

    def step(self, action: str) -> Heard:
        """Sends the agent's message: words to the customer, tool calls to the database."""
        return self._until_agent(self._dialogue.step(action))

    def is_allowed(self, action: str) -> bool:
        """Whether the message is well formed, its tools exist and their arguments fit."""
        return self._dialogue.is_allowed(action)

    def expert_action(self) -> str:
        """The next message on the way of the task's reference actions."""
        return self._dialogue.expert_action()

    def _until_agent(self, heard: Heard) -> Heard:
        while heard.awaited == "user" and not heard.done:
            from_tool = heard.role == "tool"
            said = self._user.speak(self._dialogue.record, heard.observation, from_tool=from_tool)
            heard = self._dialogue.step(said)
        return heard

"""The package's own evaluation of a conversation that its agent or customer has ended."""

from collections.abc import Sequence

from tau2.data_model.message import AssistantMessage, Message, UserMessage
from tau2.data_model.tasks import RewardType
from tau2.data_model.tasks import Task as Tau2Task
from tau2.evaluator.evaluator_action import ActionEvaluator
from tau2.evaluator.evaluator_communicate import CommunicateEvaluator
from tau2.evaluator.evaluator_env import EnvironmentEvaluator

from jopd.envs.base import EnvError
from jopd.envs.tau2.reference import failed_calls
from jopd.envs.tau2.world import World

_STATE = {RewardType.DB, RewardType.ENV_ASSERTION}


def reward_of(world: World, task: Tau2Task, record: Sequence[Message]) -> float:
    """The product of the evaluations that the task's reward is based on, 0 or 1.

    Departs from the package, which counts a reference action as done even where its call failed: it
    would reward a transfer to a human whose arguments are missing.

    Raises:
      EnvError: the tool calls, made again on a fresh database, give other results.
    """
    assert task.evaluation_criteria is not None
    basis, messages = set(task.evaluation_criteria.reward_basis), list(record)
    reward = 1.0
    if basis & _STATE:
        try:
            state = EnvironmentEvaluator.calculate_reward(world.make_environment, task, messages)
        except ValueError as error:
            raise EnvError(
                f"the conversation cannot be played again for scoring: {error}"
            ) from error
        reward *= state.reward
    if RewardType.ACTION in basis:
        reward *= ActionEvaluator.calculate_reward(task, _without_failed(messages)).reward
    if RewardType.COMMUNICATE in basis:
        reward *= CommunicateEvaluator.calculate_reward(task, messages).reward
    return reward


def _without_failed(messages: Sequence[Message]) -> list[Message]:
    """The same messages without the calls that were answered with an error."""
    failed = failed_calls(messages)
    kept: list[Message] = []
    for message in messages:
        if isinstance(message, AssistantMessage | UserMessage) and message.tool_calls:
            calls = [call for call in message.tool_calls if call.id not in failed]
            message = message.model_copy(update={"tool_calls": calls or None})
        kept.append(message)
    return kept

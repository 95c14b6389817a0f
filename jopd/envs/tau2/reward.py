"""The package's own evaluation of a conversation that its agent or customer has ended."""

from collections.abc import Sequence

from tau2.data_model.message import Message
from tau2.data_model.tasks import RewardType
from tau2.data_model.tasks import Task as Tau2Task
from tau2.evaluator.evaluator_action import ActionEvaluator
from tau2.evaluator.evaluator_communicate import CommunicateEvaluator
from tau2.evaluator.evaluator_env import EnvironmentEvaluator

from jopd.envs.base import EnvError
from jopd.envs.tau2.world import World

_STATE = {RewardType.DB, RewardType.ENV_ASSERTION}


def reward_of(world: World, task: Tau2Task, record: Sequence[Message]) -> float:
    """The product of the evaluations that the task's reward is based on, 0 or 1.

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
        reward *= ActionEvaluator.calculate_reward(task, messages).reward
    if RewardType.COMMUNICATE in basis:
        reward *= CommunicateEvaluator.calculate_reward(task, messages).reward
    return reward

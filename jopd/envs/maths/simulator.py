"""One problem, one reply: the episode is over after the first step."""

from dataclasses import replace

from jopd.envs.base import StepResult
from jopd.envs.maths.answers import is_correct
from jopd.envs.maths.panels import ProblemBook
from jopd.panels import Task


class MathSimulator:
    """Sets a problem and judges the reply by its last boxed answer."""

    def __init__(self, book: ProblemBook):
        self._book = book

    def reset(self, task: Task) -> StepResult:
        """Shows the problem of `task`.

        Raises:
          ValueError: the task is none of these problems.
        """
        if not 0 <= task.index < len(self._book.problems) or self._book.task(task.index) != task:
            raise ValueError(
                f"task {task.task_id} is not problem {task.index} of this run; problems files and "
                "panels must belong together"
            )
        self._problem = self._book.problems[task.index]
        self._seen = StepResult(
            observation=self._problem.question,
            instruction=self._problem.question,
            allowed_actions=(),
            done=False,
            reward=0.0,
            success=False,
        )
        return self._seen

    def step(self, action: str) -> StepResult:
        """Judges the reply; nothing that is said later counts."""
        if not self._seen.done:
            success = is_correct(action, self._problem.answer)
            self._seen = replace(self._seen, done=True, success=success, reward=float(success))
        return self._seen

    def is_allowed(self, action: str) -> bool:
        """Whether a reply is still awaited; any text is one."""
        return bool(action) and not self._seen.done

    def expert_action(self) -> str:
        """The working, where it is known, and the boxed answer."""
        answer = f"The answer is \\boxed{{{self._problem.answer}}}"
        return f"{self._problem.working} {answer}".lstrip()

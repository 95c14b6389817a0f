"""The problems of a run and the panels over them."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from jopd.envs.maths.embedded import embedded_problems
from jopd.envs.maths.problems import Problem, read_problems
from jopd.envs.maths.settings import MathSettings
from jopd.panels import Task, TaskPanel, make_known_panel, make_panel

SHA256 = {  # of the embedded problems' panels
    "train": "22523189bf69715d69f09837e487c1945b0b1c363814db7c28e36e86feb1cfd7",
    "eval": "f282e734b575a8173f6664188bb958c4dbe9b8e12590dab2dd306fa00b0dea89",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemBook:
    """All problems of a run; a task's index is a place in it.

    Attributes:
      problems: those for training, then those for evaluation.
      train_problems: how many are for training.
      embedded: they come from no file, so their panels are known.
    """

    problems: tuple[Problem, ...]
    train_problems: int
    embedded: bool

    def task(self, index: int) -> Task:
        """The task to solve the problem at `index`; its id changes with question and answer."""
        problem = self.problems[index]
        digest = hashlib.sha256(f"{problem.question}\0{problem.answer}".encode()).hexdigest()
        return Task(task_id=f"math/{index}/{digest[:12]}", domain="math", index=index, seed=0)


def open_book(settings: MathSettings) -> ProblemBook:
    """Reads the problems' files, or makes the embedded problems.

    Raises:
      ValueError: a file is missing or wrong.
    """
    embedded = not settings.problems_file
    if embedded:
        train, evaluation = embedded_problems()
    else:
        train = read_problems(Path(settings.problems_file))
        evaluation = read_problems(Path(settings.eval_problems_file))
    return ProblemBook(problems=train + evaluation, train_problems=len(train), embedded=embedded)


def load_panel(book: ProblemBook, split: str) -> TaskPanel:
    """The panel of a split, "train" or "eval", in the order of the problems.

    Raises:
      ValueError: there is no such split, or the embedded problems are not those of the recorded
        hash.
    """
    if split not in SHA256:
        raise ValueError(f"math has the splits {', '.join(SHA256)}, not {split!r}")
    first, last = (
        (0, book.train_problems) if split == "train" else (book.train_problems, len(book.problems))
    )
    name, tasks = f"math_{split}", [book.task(index) for index in range(first, last)]
    if book.embedded:
        return make_known_panel(name, tasks, sha256=SHA256[split])
    return make_panel(name, tasks)

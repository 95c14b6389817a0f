"""Problems of school arithmetic that need no file: five kinds, made from their numbers alone."""

import math
import random
from collections.abc import Iterator
from itertools import count, islice

from jopd.envs.maths.problems import Problem

TRAIN_PROBLEMS, EVAL_PROBLEMS = 4000, 200


def embedded_problems() -> tuple[tuple[Problem, ...], tuple[Problem, ...]]:
    """Problems for training and for evaluation, always the same; no question comes twice."""
    problems = tuple(islice(_distinct(), EVAL_PROBLEMS + TRAIN_PROBLEMS))
    return problems[EVAL_PROBLEMS:], problems[:EVAL_PROBLEMS]


def _distinct() -> Iterator[Problem]:
    seen: set[str] = set()
    for number in count():
        problem = _KINDS[number % len(_KINDS)](random.Random(number))
        if problem.question not in seen:
            seen.add(problem.question)
            yield problem


def _arithmetic(rng: random.Random) -> Problem:
    a, b, c = (rng.randint(2, 50) for _ in range(3))
    return Problem(
        question=f"What is {a} + {b} * {c}?",
        answer=str(a + b * c),
        working=f"{b} * {c} = {b * c} and {a} + {b * c} = {a + b * c}.",
    )


def _equation(rng: random.Random) -> Problem:
    factor, x, added = rng.randint(2, 12), rng.randint(-20, 20), rng.randint(1, 60)
    total = factor * x + added
    return Problem(
        question=f"Solve {factor} * x + {added} = {total} for x.",
        answer=str(x),
        working=f"{factor} * x = {total} - {added} = {total - added}, so x = {x}.",
    )


def _remainder(rng: random.Random) -> Problem:
    total, divisor = rng.randint(100, 999), rng.randint(3, 20)
    quotient, rest = divmod(total, divisor)
    return Problem(
        question=f"What is the remainder when {total} is divided by {divisor}?",
        answer=str(rest),
        working=f"{quotient} * {divisor} = {total - rest} and {total} - {total - rest} = {rest}.",
    )


def _common_divisor(rng: random.Random) -> Problem:
    shared, a, b = (rng.randint(2, 15) for _ in range(3))
    a, b = shared * a, shared * b
    greatest = math.gcd(a, b)
    return Problem(
        question=f"What is the greatest common divisor of {a} and {b}?",
        answer=str(greatest),
        working=f"{a} = {greatest} * {a // greatest} and {b} = {greatest} * {b // greatest}.",
    )


def _multiples(rng: random.Random) -> Problem:
    step, first, length = rng.randint(2, 12), rng.randint(1, 100), rng.randint(20, 200)
    last = first + length
    below, upto = (first - 1) // step, last // step
    there = upto - below
    return Problem(
        question=f"How many multiples of {step} are there from {first} to {last}?",
        answer=str(there),
        working=f"{upto} up to {last}, {below} below {first}, and {upto} - {below} = {there}.",
    )


_KINDS = (_arithmetic, _equation, _remainder, _common_divisor, _multiples)

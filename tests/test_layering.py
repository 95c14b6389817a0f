"""Imports go down only, no function imports anything, and no room imports what it must not see."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "jopd"
FILES = sorted(PACKAGE.rglob("*.py"))
FLOORS = {
    "types": 0,
    "models": 0,
    "parallel": 0,
    "reporting": 0,
    "algorithms": 1,
    "envs": 1,
    "engines": 1,
    "panels": 0,
    "tasks": 1,
    "rollout": 2,
    "experience": 2,
    "learner": 2,
    "runtime": 3,
    "evaluation": 3,
    "settings": 3,
    "assembly": 3,
    "command": 3.5,  # what commands share
    "customer": 3.4,
    "training": 3.5,
    "trained": 3.5,
    "checks": 3.5,
}
COMMAND_FLOOR = 4
GATHERERS = {"settings", "assembly"}  # they may import from their own floor
FORBIDDEN = {
    "algorithms": {"models", "parallel", "reporting"},
    "experience": {"engines", "envs"},
    "learner": {"rollout", "experience", "engines", "envs", "tasks"},
    "runtime": {"learner", "models"},
}


def room(path: Path) -> str:
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def floor(name: str) -> int:
    return FLOORS.get(name, COMMAND_FLOOR)


def imported(path: Path) -> list[str]:
    """Modules of jopd that a file imports, without the leading `jopd.`."""
    names = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            names.append(node.module)
        elif isinstance(node, ast.Import):
            names.extend(alias.name for alias in node.names)
    return [name.removeprefix("jopd.") for name in names if name.startswith("jopd.")]


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_go_down_only(path):
    here = room(path)
    if here == "__init__":
        return
    for module in imported(path):
        there = module.split(".")[0]
        if there == here:
            continue
        assert there not in FORBIDDEN.get(here, ()), f"{here} must not see {there}"
        same_floor = floor(there) == floor(here) and (here in GATHERERS or floor(here) == 0)
        assert floor(there) < floor(here) or same_floor, f"{here} imports {module}"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_only_factories_import_inside_functions(path):
    if path.name == "factory.py":
        return
    for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            inside = [n for n in ast.walk(function) if isinstance(n, ast.Import | ast.ImportFrom)]
            assert not inside, f"{function.name} imports at line {inside[0].lineno}"


def test_rollout_sees_only_the_protocols_of_environments_and_engines():
    seen = {m for path in FILES if room(path) == "rollout" for m in imported(path)}
    floor_one = {module for module in seen if floor(module.split(".")[0]) == 1}
    assert floor_one == {"envs.base", "engines.base"}


def test_environments_and_engines_are_loaded_by_their_factories_only():
    for package in ("envs", "engines"):
        assert (PACKAGE / package / "__init__.py").read_text(encoding="utf-8") == ""

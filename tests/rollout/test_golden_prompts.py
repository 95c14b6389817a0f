"""What every shipped style shows, to the character; `scripts/write_golden_prompts.py` writes it."""

import pytest
from write_golden_prompts import GOLDEN, PLAYED_IN, golden_path, play, render, shipped_styles

HOW = "if that is wanted, run python scripts/write_golden_prompts.py and read the difference"


def test_every_shipped_style_has_an_environment_and_a_golden_file():
    assert sorted(PLAYED_IN) == shipped_styles()
    assert sorted(path.stem for path in GOLDEN.glob("*.txt")) == shipped_styles()


@pytest.mark.parametrize("name", sorted(PLAYED_IN))
def test_a_style_shows_its_golden_prompts(name):
    try:
        play(PLAYED_IN[name])
    except ValueError as problem:
        pytest.skip(str(problem))  # its package or Java is missing
    golden = golden_path(name).read_bytes().decode()
    assert render(name) == golden, f"{name} shows something else now; {HOW}"

import pytest

from jopd.envs.maths.answers import boxed_answer, is_correct, same_answer


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (r"so \boxed{3} and \boxed{4}", "4"),
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed{\boxed{7}}", r"\boxed{7}"),
        (r"\boxed{5} then \boxed{6", "5"),
        (r"\boxed{6", None),
        ("the answer is 6", None),
    ],
)
def test_the_last_balanced_box_is_the_answer(reply, expected):
    assert boxed_answer(reply) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("007", "7"),
        ("1,234", "1234"),
        ("1{,}234", "1234"),
        ("0.5", r"\frac{1}{2}"),
        (r"\dfrac{2}{4}", "1/2"),
        (r"-\frac{1}{2}", "-0.5"),
        (r"50\%", "50"),
        (r"90^\circ", "90"),
        (r"12\text{ cm}", "12"),
        ("x = 3", "3"),
        ("( 1, 2 )", "(1,2)"),
        (r"\{1, 2\}", r"\{1,2\}"),
    ],
)
def test_two_ways_to_write_one_answer_are_equal(given, expected):
    assert same_answer(given, expected)


@pytest.mark.parametrize(
    ("given", "expected"), [("3", "4"), ("1/0", "0"), ("", "0"), ("(1,2)", "(2,1)"), ("2**3", "8")]
)
def test_other_answers_are_not_equal(given, expected):
    assert not same_answer(given, expected)


@pytest.mark.parametrize("part", ["{", "}", "\\boxed{", "1"])
def test_a_reply_of_100_kb_without_an_answer_is_wrong(part):
    assert not is_correct(part * (100_000 // len(part)), "1")
    assert not is_correct("\\boxed{" + "1" * 100_000 + "}", "1")

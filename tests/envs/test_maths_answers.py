import pytest

from jopd.envs.maths.answers import boxed_answer, is_correct, same_answer


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (r"so \boxed{3} and \boxed{4}", "4"),
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed{x = \boxed{7}}", r"x = \boxed{7}"),
        (r"\boxed{\boxed{1}} and \boxed{2}", "2"),
        (r"\boxed{5} then \boxed{6", "5"),
        (r"\boxed{ 1 + \boxed{6}", "6"),
        (r"\boxed{5} } {", "5"),
        (r"\boxed {8}", "8"),
        (r"\boxed{\left\{ 1 \right.}", r"\left\{ 1 \right."),
        (r"\boxed{\}", None),
        (r"\boxed{6", None),
        (r"\\boxed{6}", None),
        ("the answer is 6", None),
        ("", None),
    ],
)
def test_the_last_balanced_outermost_box_is_the_answer(reply, expected):
    assert boxed_answer(reply) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("007", "7"),
        ("-0", "0"),
        ("+3", "3"),
        ("\u22123", "-3"),
        ("3.", "3"),
        (".50", "0.5"),
        ("1,234", "1234"),
        ("1,234,567.5", "1234567.5"),
        ("1{,}234", "1234"),
        (r"1,\!234", "1234"),
        ("0.5", r"\frac{1}{2}"),
        (r"\dfrac{2}{4}", "1/2"),
        (r"\tfrac{2}{4}", "0.5"),
        (r"\frac12", "0.5"),
        (r"\frac1{20}", "0.05"),
        (r"\frac{11}2", "5.5"),
        (r"-\frac{1}{2}", "-0.5"),
        (r"\frac{-1}{2}", "-0.5"),
        (r"\frac{1}{-2}", "-0.5"),
        (r"-\frac{-1}{2}", "1/2"),
        (r"1\frac{1}{2}", "1.5"),
        (r"-1\frac12", "-1.5"),
        (r"50\%", "50"),
        ("50 %", "50"),
        (r"90^\circ", "90"),
        (r"90^{\circ}", "90"),
        ("90°", "90"),
        (r"\$5", "5"),
        ("$5$", "5"),
        (r"12\text{ cm}", "12"),
        (r"12\,\mathrm{cm}^2", "12"),
        (r"\frac{1}{2}\text{ hours}", "0.5"),
        ("x = 3", "3"),
        (r"\theta_1 = 3", "3"),
        (r"x = \boxed{7}", "7"),
        (r"x \in [1, 2)", "[1,2)"),
        ("y = 2x + 1", "2x+1"),
        ("( 1, 2 )", "(1,2)"),
        (r"\left(\frac{1}{2}, 2\right)", "(0.5, 2)"),
        ("((1,2),3)", "((1, 2), 3.0)"),
        ("(5)", "5"),
        (r"(\text{A})", "A"),
        ("1, 2", "1,2"),
        ("x = 1, y = 2", "1,2"),
        (r"\{1, 2\}", r"\{2,1\}"),
        (r"\left\{ 0.5, (1,2) \right\}", r"\{(1,2), \frac12\}"),
        ("{1, 2}", r"\{2, 1\}"),
        ("{7}", "7"),
        (r"\text{Yes}", "Yes"),
        (r"\textbf{not prime}", r"\text{not prime}"),
        (r"\sqrt{3}", r"\sqrt3"),
        (r"x^{2}", "x^2"),
        (r"\dfrac{\sqrt{3}}{2}", r"\frac{\sqrt{3}}{2}"),
    ],
)
def test_two_ways_to_write_one_answer_are_equal(given, expected):
    assert same_answer(given, expected)
    assert same_answer(expected, given)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("3", "4"),
        ("1/0", "0"),
        (r"\frac{1}{0}", r"\frac{2}{0}"),
        ("1/3", "0.3333"),
        ("", "0"),
        ("", ""),
        (r"\text{}", r"\text{ }"),
        ("(1,2)", "(2,1)"),
        ("(1,2)", "(1,2]"),
        ("(1,2)", "[1,2]"),
        ("(1,2)", "(1,2,3)"),
        ("(1,2),(3,4)", "(1,2,3,4)"),
        ("(1,2)(3,4)", "(1,2,3,4)"),
        (r"\{1,2\}", "(1,2)"),
        (r"\{1,2\}", r"\{1,3\}"),
        (r"\{1,1\}", r"\{1,2\}"),
        ("2**3", "8"),
        ("6/2/1", "3"),
        (r"2\frac{3}{2}", "3.5"),
        (r"3\frac{-1}{2}", "2.5"),
        ("{1}{2}", "12"),
        (r"\{7\}", "7"),
        (r"5^{2}", "52"),
        (r"x\infty", r"\infty"),
        ("1e3", "1000"),
        ("1_000", "1000"),
        (r"\text{yes}", r"\text{no}"),
        (r"\text{A}", r"\text{B}"),
        (r"\text{odd}", r"\text{}"),
        ("12,34", "1234"),
        ("x == 3", "3"),
        ("__import__('os')", "0"),
    ],
)
def test_other_answers_are_not_equal(given, expected):
    assert not same_answer(given, expected)
    assert not same_answer(expected, given)


def test_a_reply_is_correct_by_its_last_box():
    assert is_correct(r"Not \boxed{3}, rather \boxed{0.5}.", r"\frac{1}{2}")
    assert not is_correct(r"Not \boxed{0.5}, rather \boxed{3}.", r"\frac{1}{2}")
    assert not is_correct("0.5", "0.5")


@pytest.mark.parametrize(
    "part", ["{", "}", "\\", "\\boxed", "\\boxed{", "\\boxed{}", "\\boxed ", "1", "\\{"]
)
def test_a_reply_of_100_kb_without_an_answer_is_wrong(part):
    assert not is_correct(part * (100_000 // len(part)), "1")
    assert not is_correct("\\boxed{" + "1" * 100_000 + "}", "1")


@pytest.mark.parametrize(
    "part", ["(", "{", "\\{", "((1),", "1,", "-", "\\text{", "\\frac{1}", "x="]
)
def test_a_strange_answer_of_the_greatest_length_is_wrong_and_no_error(part):
    strange = part * (1000 // len(part))
    assert not same_answer(strange, "1")
    assert not same_answer(strange + ")" * (1000 - len(strange)), "1")

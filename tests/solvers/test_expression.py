"""Expressions: the same value as Python's, and errors that name the place."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import pick

from swell.solvers.expression import MOST_CHARACTERS, MOST_NESTED, Expression, InvalidExpression

NAMES = ("a", "b", "speed_up")
COLUMNS = {name: np.array([1.0, 2.5, 7.0]) + at for at, name in enumerate(NAMES)}


@st.composite
def expressions(draw: st.DrawFn, depth: int = 4) -> str:
    """In Python's words but for the power, which is `**` there."""
    kind = draw(pick("number", "name", "sign", "binary", "binary", "call")) if depth else "name"
    if kind == "number":
        return repr(draw(pick(0.5, 2.0, 3.0, 1e-3)))
    if kind == "name":
        return draw(st.sampled_from(NAMES))
    inner = [draw(expressions(depth - 1)) for _ in range(2)]
    if kind == "sign":
        return f"-{inner[0]}"
    if kind == "call":
        return f"{draw(pick('min', 'max'))}({inner[0]}, {inner[1]})"
    one = draw(pick("{}", "({})")).format(inner[0])
    return f"{one} {draw(pick('+', '-', '*', '/', '^'))} {inner[1]}"


def by_python(text: str, at: int) -> float:
    given = {name: float(column[at]) for name, column in COLUMNS.items()}
    try:
        value = eval(text.replace("^", "**"), {"__builtins__": {}, "min": min, "max": max}, given)  # noqa: S307
    except (ZeroDivisionError, OverflowError):
        return math.nan
    return math.nan if isinstance(value, complex) else float(value)


@given(expressions())
def test_an_expression_has_the_value_that_python_gives_it(text: str) -> None:
    values = np.broadcast_to(Expression(text, NAMES).value(COLUMNS), 3)
    for at, value in enumerate(values.tolist()):
        expected = by_python(text, at)
        if math.isfinite(expected) and math.isfinite(value):
            assert value == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2 ^ 3 ^ 2", 512.0),
        ("-2 ^ 2", -4.0),
        ("2 ^ -1", 0.5),
        ("8 / 4 / 2", 1.0),
        ("sqrt(16) + log(1)", 4.0),
        ("max(1, 2, .5e1)", 5.0),
        (" ( 1+2 )*3 ", 9.0),
    ],
)
def test_powers_bind_to_the_right_and_the_rest_to_the_left(text: str, value: float) -> None:
    assert float(Expression(text, ()).value({})) == value


@pytest.mark.parametrize(
    "text", ["a / (a - a)", "log(a - 9)", "sqrt(-a)", "(-a) ^ 0.5", "9 ^ (9 ^ 9)", "0 ^ -1"]
)
def test_what_is_no_number_is_not_finite_and_no_error(text: str) -> None:
    assert not np.isfinite(Expression(text, NAMES).value(COLUMNS)).any()


BROKEN = [
    ("", "at character 1 of '': the end stands where a number, a name or ( is expected"),
    ("a * ", "at character 5 of 'a * ': the end stands where a number"),
    ("a * c", "at character 5 of 'a * c': c is no known quantity; choose from a, b, speed_up, or min, max"),
    ("(a + b", "at character 7 of '(a + b': the end stands where an operator or ) is expected"),
    ("a b", "at character 3 of 'a b': b is not expected here; write an operator such as * before it"),
    ("a)", "at character 2 of 'a)': ) is not expected here"),
    ("a ** b", r"at character 4 of 'a ** b': * stands where a number, a name or ( is expected"),
    ("max(a)", "at character 1 of 'max(a)': max has 1 arguments; it takes 2 or more"),
    ("sqrt(a, b)", "at character 1 of 'sqrt(a, b)': sqrt has 2 arguments; it takes 1"),
    ("sqrt a", "at character 6 of 'sqrt a': a stands where ( is expected, after sqrt"),
    ("1e999", "at character 1 of '1e999': 1e999 is too large; write a smaller number"),
    ("a.b", "at character 2 of 'a.b': . is not expected here"),
    ("__import__('os')", "at character 1 of \"__import__('os')\": __import__ is no known quantity"),
    ("a; b", "at character 2 of 'a; b': ; is not expected here"),
    ("a" * (MOST_CHARACTERS + 1), f"it has {MOST_CHARACTERS + 1} characters; write an expression of"),
    ("(" * 400, f"is nested more than {MOST_NESTED} times; write it flatter"),
    ("-" * 400 + "a", f"is nested more than {MOST_NESTED} times; write it flatter"),
]


@pytest.mark.parametrize(("text", "why"), BROKEN)
def test_an_error_names_the_place_and_what_could_stand_there(text: str, why: str) -> None:
    with pytest.raises(InvalidExpression) as error:
        Expression(text, NAMES)
    assert why in str(error.value)


@given(st.text(alphabet="ab+-*/^(), 1.e_minaxsqrtlog\n\t", max_size=40))
def test_any_text_is_an_expression_or_an_error(text: str) -> None:
    try:
        values = Expression(text, NAMES).value(COLUMNS)
    except InvalidExpression as error:
        assert str(error)
    else:
        assert np.broadcast_to(values, 3).dtype == np.float64

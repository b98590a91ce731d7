"""Tables have all of each text, in columns, as wide as the terminal is."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swell.cli import output

TEXTS = st.text("ab [x]é漢\n", max_size=30)


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[str], list[list[str]], int | None]:
    num = draw(st.integers(1, 6))
    headings = draw(st.lists(st.sampled_from(["", "JOB", "A B"]), min_size=num, max_size=num))
    rows = draw(st.lists(st.lists(TEXTS, min_size=num, max_size=num), max_size=4))
    return headings, rows, draw(st.sampled_from([-1, 0, None]))


def printed(capsys: pytest.CaptureFixture[str], *table: object, **options: object) -> list[str]:
    output.print_table(*table, **options)  # type: ignore[arg-type]
    return capsys.readouterr().out.splitlines()


@given(tables())
def test_each_letter_of_a_table_is_printed(table: tuple[list[str], list[list[str]], int | None]) -> None:
    lines = list[str]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys.stdout, "write", lines.append)
        output.print_table(*table)
    text = "".join(lines)
    assert letters(text) == letters("".join(cell for row in (table[0], *table[1]) for cell in row))
    assert not any(line.endswith(" ") for line in text.split("\n"))


def letters(text: str) -> list[str]:
    return sorted("".join(text.split()))


def test_only_the_column_that_may_wraps_and_columns_of_least_worth_go_first(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "PIPED_WIDTH", 30)
    rows = [("a-long-name", "one two three four")]
    assert printed(capsys, ("JOB", "WHY"), rows) == [
        "JOB          WHY",
        "a-long-name  one two three",
        "             four",
    ]
    assert printed(capsys, ("JOB", "WHY"), rows, wrapping=None)[1] == "a-long-name  one two three four"
    least = ("WHY", "AGE")
    assert printed(capsys, ("JOB", "WHY"), rows, wrapping=None, least_worth=least) == ["JOB", "a-long-name"]
    aged = [("a-long-name", "running, no step for 90 s", "2d")]  # it wraps, and the age stays
    assert printed(capsys, ("JOB", "PHASE", "AGE"), aged, wrapping=1, least_worth=("AGE",)) == [
        "JOB          PHASE         AGE",
        "a-long-name  running, no   2d",
        "             step for 90",
        "             s",
    ]

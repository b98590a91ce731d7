"""Tables without Rich are those that Rich makes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swell.cli import output

TEXTS = st.text("ab [x]é", max_size=30)


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[str], list[list[str]], int | None]:
    num = draw(st.integers(1, 6))
    headings = draw(st.lists(st.sampled_from(["", "JOB", "A B"]), min_size=num, max_size=num))
    rows = draw(st.lists(st.lists(TEXTS, min_size=num, max_size=num), max_size=4))
    return headings, rows, draw(st.sampled_from([-1, 0, None]))


@given(tables())
def test_a_table_is_as_rich_lays_it_out(table: tuple[list[str], list[list[str]], int | None]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        lines = list[str]()
        patch.setattr("builtins.print", lambda text: lines.append(text))
        output.print_table(*table)
        patch.setattr(output, "_fitting", lambda *_: None)
        output.print_table(*table)
    assert lines[0] == lines[1]

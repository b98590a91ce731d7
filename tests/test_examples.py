"""A law fails if its examples do not show all that it is about."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import Shown

SHOWN = Shown("a", "b", "c")


@settings(max_examples=20)
@given(kinds=st.lists(st.sampled_from("ab"), min_size=9))
def law(kinds: list[str]) -> None:
    SHOWN.note(kinds)


def test_what_no_example_shows_is_named() -> None:
    with pytest.raises(AssertionError, match="no example shows c: draw more"):
        SHOWN.wholly(law)()


@SHOWN.wholly
@settings(max_examples=20)
@given(kinds=st.lists(st.sampled_from("abc"), min_size=9))
def test_a_law_that_shows_all_passes(kinds: list[str]) -> None:
    SHOWN.note(kinds)

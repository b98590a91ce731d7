"""Drawn scripts: those of sound seeds are the same in any life, and no drawn script is wrong in silence."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.scripts.grammar import draw


@given(st.integers(0, 10**9))
def test_a_seed_is_one_script_which_python_reads(seed: int) -> None:
    drawn = draw(seed)
    assert drawn == draw(seed)
    compile(drawn.text, "drawn.py", "exec")
    assert drawn.is_sound == (not drawn.unsound) and (drawn.is_sound or drawn.since >= 0)

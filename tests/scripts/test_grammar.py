"""Drawn scripts: a seed is one script, and what becomes of forty of them in a life."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.scripts.fuzz import BAD, judge_twice
from tests.scripts.grammar import draw


@given(st.integers(0, 10**9))
def test_a_seed_is_one_script_which_python_reads(seed: int) -> None:
    drawn = draw(seed)
    assert drawn == draw(seed)
    compile(drawn.text, "drawn.py", "exec")
    assert drawn.is_sound == (not drawn.unsound) and (drawn.is_sound or drawn.since >= 0)


#: What takes effect after the trial run's steps, or lies in a loader, is not found yet.
NOT_YET = frozenset({39})
not_yet = pytest.mark.xfail(strict=True, reason="a trial run compares the first steps, and one process")


@pytest.mark.slow
@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=not_yet if seed in NOT_YET else []) for seed in range(1, 41)]
)
def test_no_drawn_script_is_wrong_in_silence_or_held_although_it_is_sound(seed: int, tmp_path: Path) -> None:
    verdict = judge_twice(seed, tmp_path)
    assert verdict.kind not in BAD, verdict

"""What the resize benchmark makes of a log, on logs whose pauses are known."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from benchmarks.training.pauses import Pause, pause_of, stretches
from benchmarks.training.steplog import Line
from benchmarks.training.table import Row, row_of, verdict_on
from hypothesis import given
from hypothesis import strategies as st

seconds = st.integers(1, 10_000).map(lambda number: number / 1000)


def group_of(
    name: str, num_workers: int, first_step: int, begun_s: float, steps_s: Sequence[float]
) -> list[Line]:
    """Lines of a group that begins to train at `begun_s`; rank 0 is done a little before the others."""
    lines, now_s = [], begun_s
    for number, step_s in enumerate(steps_s):
        now_s += step_s
        for rank in range(num_workers):
            early_s = 0.1 * step_s if rank == 0 and num_workers > 1 else 0.0
            lines.append(Line(now_s - early_s, first_step + number, num_workers, rank, name, 100 + rank))
    return lines


@given(seconds, seconds, seconds, st.integers(2, 8), st.integers(0, 5))
def test_a_pause_is_the_gap_between_two_groups(
    old_s: float, gap_s: float, new_s: float, num_steps: int, num_repeated: int
) -> None:
    old = group_of("a", 2, 10, 100.0, [old_s] * 9)
    begun_s = 100.0 + 9 * old_s + gap_s
    new = group_of("b", 4, 19 - num_repeated, begun_s, [new_s] * num_steps)
    pause = pause_of(stretches([*old, *new]), 0, 1, cause_s=100.0)
    assert pause.pause_s == pytest.approx(gap_s, abs=1e-6)
    assert pause.steady_step_s == pytest.approx(new_s, abs=1e-6)
    assert pause.to_next_step_s == pytest.approx(9 * old_s + gap_s + new_s, abs=1e-6)
    assert pause.num_repeated == num_repeated


@given(seconds, seconds, seconds, seconds, st.integers(2, 5))
def test_what_is_trained_on_the_way_is_no_pause(
    first_gap_s: float, second_gap_s: float, way_s: float, new_s: float, num_on_the_way: int
) -> None:
    old = group_of("a", 1, 0, 0.0, [1.0] * 4)
    begun_s = 4.0 + first_gap_s
    way = group_of("b", 5, 4, begun_s, [way_s] * num_on_the_way)
    begun_s += num_on_the_way * way_s + second_gap_s
    new = group_of("c", 8, 4 + num_on_the_way, begun_s, [new_s] * 4)
    pause = pause_of(stretches([*new, *old, *way]), 0, 2, cause_s=0.0)
    assert pause.pause_s == pytest.approx(first_gap_s + second_gap_s, abs=1e-6)
    assert pause.num_repeated == 0


def test_a_steady_step_is_the_median() -> None:
    old = group_of("a", 2, 0, 0.0, [1.0] * 3)
    new = group_of("b", 4, 3, 5.0, [2.5, 2.0, 9.0, 2.0, 2.0])  # one of them wrote a checkpoint
    pause = pause_of(stretches([*old, *new]), 0, 1, cause_s=3.0)
    assert (pause.steady_step_s, pause.pause_s) == pytest.approx((2.0, 5.0 - 3.0 + 0.5))


def test_a_row_compares_medians() -> None:
    def pauses(*pauses_s: float) -> list[Pause]:
        return [Pause(each, steady_step_s=1.0, to_next_step_s=2.0, num_repeated=3) for each in pauses_s]

    def row(**found: list[Pause]) -> Row:
        return row_of("1M", "adam", "2 to 4", False, found)

    both = row(torchrun=pauses(9.0, 6.0, 8.0), swell=pauses(0.1, 0.9, 0.2))
    assert both.ratio == pytest.approx(8.0 / 0.2)
    assert row(swell=pauses(0.1)).ratio is None
    assert row(torchrun=pauses(9.0), swell=pauses(-0.1)).ratio == float("inf")
    assert verdict_on([both]) == ["1M: at least 50 times less wanted, 40 times less measured"]

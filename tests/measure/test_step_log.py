"""What a measurement makes of a log, on logs whose pauses and steps are known."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swell.measure.step_log import LoggedStep, StepLog, await_steps, pause_s, read_steps, steady_step_s

SECONDS = st.integers(1, 10_000).map(lambda number: number / 1000)
WORKERS = st.integers(1, 8)


def group_of(
    num_workers: int, first_step: int, begun_s: float, step_s: float, number: int
) -> list[LoggedStep]:
    """Steps of equal length; the first worker is done a little before the others."""
    steps = list[LoggedStep]()
    for place in range(number):
        end_s = begun_s + (place + 1) * step_s
        ends_s = (
            [end_s] * num_workers
            if num_workers == 1
            else [end_s - 0.1 * step_s, *[end_s] * (num_workers - 1)]
        )
        steps += [LoggedStep(one_s, first_step + place, num_workers) for one_s in ends_s]
    return steps


@given(WORKERS, SECONDS, SECONDS, st.integers(2, 10))
def test_a_step_ends_with_its_last_worker(
    num_workers: int, begun_s: float, step_s: float, number: int
) -> None:
    steps = group_of(num_workers, 7, begun_s, step_s, number)
    assert steady_step_s(sorted(steps)) == pytest.approx(step_s)


def test_one_step_is_not_steady() -> None:
    with pytest.raises(ValueError, match="takes two"):
        steady_step_s(group_of(2, 1, 0.0, 1.0, 1))


@given(st.lists(WORKERS, min_size=2, max_size=2, unique=True), SECONDS, SECONDS, SECONDS, st.booleans())
def test_a_pause_is_what_a_change_takes_from_training(
    sizes: Sequence[int], old_s: float, new_s: float, pause: float, is_again: bool
) -> None:
    before, after = sizes
    old = group_of(before, 1, 0.0, old_s, 5)
    changed_s = old[-1].end_s - old_s / 2
    begun_s = 5 * old_s + pause
    new = group_of(after, 6, begun_s, new_s, 5)
    earlier = group_of(after, -20, -100.0 - 10 * new_s, new_s, 5) if is_again else []
    steps = sorted([*earlier, *old, *new])
    assert pause_s(steps, before, after, changed_s) == pytest.approx(pause)


def test_a_change_that_was_not_seen_has_no_pause() -> None:
    steps = group_of(1, 1, 0.0, 1.0, 5)
    with pytest.raises(ValueError, match="no steps with 2 workers, or none with 1"):
        pause_s(steps, 2, 1, 0.0)


def test_a_line_without_an_end_does_not_count(tmp_path: Path) -> None:
    log = StepLog(tmp_path)
    log.note(1, 2)
    with next(tmp_path.glob("steps-*.log")).open("a") as file:
        file.write("12.5 2")
    assert [(one.step, one.num_workers) for one in read_steps(tmp_path)] == [(1, 2)]


def test_steps_are_awaited_until_they_are_enough_or_cannot_come(tmp_path: Path) -> None:
    looks = list[int]()

    def check() -> None:
        StepLog(tmp_path).note(len(looks), 1)
        looks.append(0)

    found = await_steps(tmp_path, lambda steps: len(steps) == 3, check, within_s=30.0)
    assert [one.step for one in found] == [0, 1, 2]
    with pytest.raises(TimeoutError, match="made no steps"):
        await_steps(tmp_path, lambda steps: False, lambda: None, within_s=0.0)

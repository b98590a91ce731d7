"""Values of several workers that become one: no worker waits, and none that reported is forgotten."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from swell.executors.gang.reductions import GRACE_S, STEPS_LATER, Reductions
from swell.tally import Reduction
from swell.wire.messages import WorkerValues


def share(step: int, value: float, reduction: Reduction = "sum") -> dict[str, WorkerValues]:
    return {"samples": WorkerValues(reduction=reduction, values=[(step, value)])}


def taken(
    reductions: Reductions, workers: int, steps: int = 0, now_s: float = 0.0, is_last: bool = False
) -> list[tuple[int, float]]:
    found = reductions.take_reduced(range(workers), steps, now_s, is_last)
    return found["samples"][1] if found else []


def test_a_value_is_there_when_all_have_told_theirs() -> None:
    expected: list[tuple[Reduction, float]] = [("sum", 12.0), ("mean", 4.0), ("min", 1.0), ("max", 8.0)]
    for reduction, whole in expected:
        reductions = Reductions()
        for worker, value in enumerate((3.0, 1.0, 8.0)):
            assert taken(reductions, 3) == []
            reductions.note_shares(worker, share(7, value, reduction), 7)
        assert taken(reductions, 3) == [(7, whole)] and taken(reductions, 3) == []


def test_a_worker_that_says_nothing_is_left_out_once_it_has_gone_on() -> None:
    reductions = Reductions()
    reductions.note_shares(0, share(7, 3.0), 7)
    assert taken(reductions, 2, steps=7 + STEPS_LATER - 1, now_s=1e6) == [], "it may evaluate for long"
    assert taken(reductions, 2, steps=7 + STEPS_LATER, now_s=1e6) == []
    assert taken(reductions, 2, steps=7 + STEPS_LATER, now_s=1e6 + GRACE_S) == [(7, 3.0)]
    reductions.note_shares(1, share(7, 5.0), 9)
    assert taken(reductions, 2, is_last=True) == [], "it comes too late"


def test_of_a_worker_that_is_gone_nothing_is_left_in_steps_that_are_made_again() -> None:
    reductions = Reductions()
    reductions.begin_round(1, 0)
    for step in (6, 8):
        reductions.note_shares(0, share(step, 1.0), step)
        reductions.note_shares(1, share(step, 5.0), step)
    reductions.begin_round(2, 7)  # of workers 0 and 2, from a checkpoint
    reductions.note_shares(0, share(8, 2.0), 8)
    reductions.begin_round(2, 7)  # as worker 2 joins, too
    reductions.note_shares(2, share(8, 3.0), 8)
    assert reductions.take_reduced([0, 2], 8, 0.0)["samples"][1] == [(6, 6.0), (8, 5.0)]


def test_what_is_no_number_makes_none_and_what_is_no_step_is_left_out() -> None:
    reductions = Reductions()
    reductions.note_shares(0, {"samples": WorkerValues(reduction="max", values=[(7, "nan")])}, 7)
    reductions.note_shares(1, share(7, 5.0, "max"), 7)
    ((_, value),) = taken(reductions, 2)
    assert math.isnan(value)
    reductions.note_shares(0, share(-1, 5.0), 7)
    reductions.note_shares(0, share(1 << 60, 5.0), 7)
    assert taken(reductions, 2, is_last=True) == []


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 5)), max_size=30), st.data())
def test_each_value_counts_once_or_comes_too_late(said: list[tuple[int, int]], data: st.DataObject) -> None:
    reductions, total, last_step = Reductions(), 0.0, -1
    for worker, step in said:
        reductions.note_shares(worker, share(step, 1.0), step)
        if data.draw(st.booleans()):
            found = taken(reductions, 3)
            assert [at for at, _ in found] == sorted({at for at, _ in found})
            assert all(at > last_step for at, _ in found)
            last_step = max([last_step, *(at for at, _ in found)])
            total += sum(value for _, value in found)
    total += sum(value for _, value in taken(reductions, 3, is_last=True))
    assert total <= len(set(said))

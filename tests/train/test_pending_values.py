"""Values that a script reports by name, on their way to its agent."""

from __future__ import annotations

import itertools
import math

from hypothesis import given, settings
from hypothesis import strategies as st

from swell.tally import Tally
from swell.train.link.pending_values import INTERVAL_S, PendingValues
from swell.wire.metrics import MOST_METRICS, Number

REPORTS = st.lists(st.tuples(st.floats(0.0, 1.0), st.sampled_from("abc"), st.floats()), max_size=40)


class Now:
    def __init__(self) -> None:
        self.s = 100.0

    def __call__(self) -> float:
        return self.s


@given(REPORTS)
def test_a_name_is_told_at_most_every_interval_and_its_last_value_gets_through(
    reports: list[tuple[float, str, float]],
) -> None:
    now = Now()
    untold = PendingValues(now)
    told: dict[str, Number] = {}
    at_s: dict[str, float] = {}
    last: dict[str, float] = {}
    for passed_s, name, value in reports:
        now.s += passed_s
        last[name] = value
        if untold.note({name: value}, 0):
            assert now.s - at_s.get(name, -math.inf) >= INTERVAL_S
            told |= (taken := untold.take())
            at_s |= dict.fromkeys(taken, now.s)
    told |= untold.take()
    assert {name: str(float(value)) for name, value in told.items()} == {
        name: str(value) for name, value in last.items()
    }


@given(st.lists(st.tuples(st.integers(0, 2), st.booleans()), max_size=60))
@settings(deadline=None)
def test_all_values_are_in_the_curves_that_are_told(reports: list[tuple[int, bool]]) -> None:
    untold, step, told = PendingValues(Now()), 0, list[Tally]()
    for more, is_time in reports:
        step += more
        untold.note({"loss": float(step)}, step)
        if is_time:
            told += untold.take_curves(2).values()
    told += untold.take_curves(2).values()
    assert sum(tally.count for tally in told) == len(reports)
    assert all(earlier.last_step <= later.first_step for earlier, later in itertools.pairwise(told))


def test_names_that_are_not_kept_are_told_of_once() -> None:
    untold = PendingValues()
    bad = ["", "x" * 10_000, "a\x1b[31m", "\ud800", "\u202e"]
    untold.note(dict.fromkeys([*bad, "<b>val/loss</b>"], 1.0), 1, "rank0")
    assert list(untold.take()) == ["<b>val/loss</b>"] and list(untold.take_curves(1)) == ["<b>val/loss</b>"]
    assert "printable" in untold.take_refusal() and untold.take_refusal() == ""

    flood = PendingValues()
    for number in range(100_000):
        flood.note({f"m{number}": 1.0}, 1, "rank0" if number % 2 else "mean")
    assert len(flood.take()) + len(flood.take_shares()) == MOST_METRICS == 200
    assert "up to 200 names" in flood.take_refusal()
    flood.note({"m100001": 1.0}, 1, "rank0")
    assert flood.take_refusal() == ""

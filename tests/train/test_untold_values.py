"""Values that a script reports by name, on their way to its agent."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from swell.train.link.untold_values import INTERVAL_S, MAX_OWN_INTERVALS, UntoldValues
from swell.wire.numbers import Number

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
    untold = UntoldValues(now)
    told: dict[str, Number] = {}
    at_s: dict[str, float] = {}
    last: dict[str, float] = {}
    for passed_s, name, value in reports:
        now.s += passed_s
        last[name] = value
        if untold.note({name: value}):
            assert now.s - at_s.get(name, -math.inf) >= INTERVAL_S
            told |= (taken := untold.take())
            at_s |= dict.fromkeys(taken, now.s)
    told |= untold.take()
    assert {name: str(float(value)) for name, value in told.items()} == {
        name: str(value) for name, value in last.items()
    }


def test_a_value_of_a_rare_name_does_not_wait_behind_those_of_a_frequent_one() -> None:
    untold = UntoldValues(Now())
    assert untold.note({"loss": 0.5})
    untold.take()
    assert not untold.note({"loss": 0.4})
    assert untold.note({"accuracy": 0.9})
    assert untold.take() == {"loss": 0.4, "accuracy": 0.9}


def test_names_without_end_are_no_flood() -> None:
    now = Now()
    untold = UntoldValues(now)
    num_told = 0
    for number in range(1000):
        if untold.note({f"step{number}": 1.0}):
            untold.take()
            num_told += 1
    assert num_told == MAX_OWN_INTERVALS + 1
    now.s += INTERVAL_S
    assert untold.note({"step0": 1.0}) and untold.note({"step1001": 1.0})

"""Every run has its turn, and a tick has never more than it has time for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from swell.executors.controller.directed_runs import MOST_AT_ONCE, Rounds


@given(st.integers(0, MOST_AT_ONCE), st.integers(1, 5))
def test_few_runs_are_looked_at_in_each_tick(num: int, num_ticks: int) -> None:
    rounds, keys = Rounds(), [f"job{number}" for number in range(num)]
    assert all(rounds.next(keys) == keys for _ in range(num_ticks))


@given(st.integers(MOST_AT_ONCE + 1, 12 * MOST_AT_ONCE))
def test_of_many_runs_each_has_one_turn_in_a_round(num: int) -> None:
    rounds, keys = Rounds(), [f"job{number}" for number in range(num)]
    ticks = [rounds.next(keys) for _ in range(-(-num // MOST_AT_ONCE))]
    assert max(map(len, ticks)) <= MOST_AT_ONCE
    assert [key for tick in ticks for key in tick] == keys


def test_a_run_that_comes_in_a_round_has_its_turn_in_the_next() -> None:
    rounds, keys = Rounds(), [f"job{number}" for number in range(MOST_AT_ONCE + 1)]
    rounds.next(keys)
    keys.append("late")
    assert rounds.next(keys) == [f"job{MOST_AT_ONCE}"]
    assert "late" in [*rounds.next(keys), *rounds.next(keys)]

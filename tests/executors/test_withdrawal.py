"""A host that will be gone soon: when it ends, and whom it tells."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swell.executors.node.withdrawal import (
    END_AHEAD_S,
    IDLE_S,
    LEAVE_FILE,
    NoHostProcess,
    Withdrawal,
    order_leave,
    take_order,
)


class Clock:
    def __init__(self) -> None:
        self.time_s = 100.0

    def now_s(self) -> float:
        return self.time_s


@given(st.floats(0.1, 1000), st.lists(st.tuples(st.floats(0.01, 5), st.booleans()), min_size=1))
def test_it_ends_in_time_and_not_while_it_is_needed_before(
    within_s: float, ticks: list[tuple[float, bool]]
) -> None:
    clock = Clock()
    leaving = Withdrawal(clock.now_s)
    assert not leaving.is_due(is_needed=False) and leaving.warning is None
    leaving.begin(within_s, "it is reclaimed")
    until_s, idle_since_s = clock.time_s + within_s, clock.time_s
    for step_s, is_needed in ticks:
        clock.time_s += step_s
        if is_needed:
            idle_since_s = clock.time_s
        is_due = leaving.is_due(is_needed)
        assert is_due or clock.time_s < until_s, "it has to be gone"
        if is_due and clock.time_s < until_s - END_AHEAD_S:
            is_at_end = clock.time_s >= until_s - 0.5 * within_s - 1e-6
            assert is_at_end or clock.time_s >= idle_since_s + IDLE_S
        assert leaving.warning is not None and leaving.warning.why == "it is reclaimed"
        assert leaving.warning.within_s == pytest.approx(max(0.0, until_s - clock.time_s), abs=1e-6)


def test_nobody_is_told_where_no_host_process_runs(tmp_path: Path) -> None:
    with pytest.raises(NoHostProcess, match=r"no host process runs with the state folder .*--state"):
        order_leave(tmp_path, 30.0)
    assert not (tmp_path / LEAVE_FILE).exists()


@pytest.mark.parametrize(
    ("text", "within_s"), [("30.0\n", 30.0), ("-1", None), ("soon", None), ("nan", None)]
)
def test_an_order_is_taken_once(tmp_path: Path, text: str, within_s: float | None) -> None:
    (tmp_path / LEAVE_FILE).write_text(text)
    assert take_order(tmp_path) == within_s
    assert take_order(tmp_path) is None

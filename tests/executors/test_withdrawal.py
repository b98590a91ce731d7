"""A host that will be gone soon: when it ends, and whom it tells."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swell.executors.node.state import HostStateError
from swell.executors.node.withdrawal import (
    END_AHEAD_S,
    IDLE_S,
    LEAVE_FILE,
    Withdrawal,
    order_leave,
    take_order,
)


@given(st.floats(0.1, 1000), st.lists(st.tuples(st.floats(0.01, 5), st.booleans()), min_size=1))
def test_it_ends_in_time_and_not_while_it_is_needed_before(
    within_s: float, ticks: list[tuple[float, bool]]
) -> None:
    now_s = idle_since_s = 100.0
    until_s = now_s + within_s
    leaving = Withdrawal(within_s, "it is reclaimed", now_s)
    for step_s, is_needed in ticks:
        now_s += step_s
        if is_needed:
            idle_since_s = now_s
        is_due = leaving.is_due(is_needed, now_s)
        assert is_due or now_s < until_s, "it has to be gone"
        if is_due and now_s < until_s - END_AHEAD_S:
            is_at_end = now_s >= until_s - 0.5 * within_s - 1e-6
            assert is_at_end or now_s >= idle_since_s + IDLE_S
        warning = leaving.warning(now_s)
        assert warning.why == "it is reclaimed" and warning.within_s == pytest.approx(
            max(0.0, until_s - now_s), abs=1e-6
        )


def test_nobody_is_told_where_no_host_process_runs(tmp_path: Path) -> None:
    with pytest.raises(HostStateError, match=r"no host process runs with the state folder .*--state"):
        order_leave(tmp_path, 30.0)
    assert not (tmp_path / LEAVE_FILE).exists()


@pytest.mark.parametrize(("text", "within_s"), [("30.0\n", 30.0), ("soon", None)])
def test_an_order_is_taken_once(tmp_path: Path, text: str, within_s: float | None) -> None:
    (tmp_path / LEAVE_FILE).write_text(text)
    assert take_order(tmp_path) == within_s
    assert take_order(tmp_path) is None

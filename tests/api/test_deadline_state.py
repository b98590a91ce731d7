"""How the deadline of an open job stands is judged once: each place that tells of it says the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.live.webhooks.test_webhooks import OF_DEADLINES, finder, hook
from tests.store.views import job_view

from swell.api.page.rows import job_row
from swell.cli.submit import verdict
from swell.model.deadline_state import DeadlineState, deadline_state

DEADLINE_S = 1_800_000_180.0
#: In each place, of a promise.
ON_PAGE = {"on-track": "on_track", "at-risk": "at_risk", "overdue": "late"}
IN_VERDICT = {", but at risk": "at_risk", ", but is late": "late"}
TO_ADDRESSES = {"at_risk": "at_risk", "missed": "late"}


@given(
    before_s=st.sampled_from([-3.0, -0.5, 0.0, 0.5, 90.0]),
    late_s=st.sampled_from([None, -90.0, -0.5, 0.0, 1e-7, 0.01, 0.5, 1.5]),
    code=st.sampled_from(["promised", "at_risk", "boosted", "nowhere"]),
)
def test_every_place_says_the_same_of_a_promise(before_s: float, late_s: float | None, code: str) -> None:
    now_s, expected_s = DEADLINE_S - before_s, None if late_s is None else DEADLINE_S + late_s
    view = job_view(
        deadline_s=DEADLINE_S,
        estimated_finish_s=expected_s,
        reason_code=code,
    )
    state = deadline_state(view, now_s, expected_s)
    assert ON_PAGE[job_row(view, now_s).standing] == state
    words = verdict(view, "elasticflow", now_s)
    assert [said for doubt, said in IN_VERDICT.items() if doubt in words] == (
        [] if state == "on_track" else [state]
    )
    heard = finder(hook("http://all", *OF_DEADLINES)).look(now_s, view, expected_s)
    assert [TO_ADDRESSES[event] for event in heard] == ([] if state == "on_track" else [state])


@pytest.mark.parametrize(
    ("before_s", "late_s", "code", "state"),
    [
        (50.0, -10.0, "promised", DeadlineState.ON_TRACK),
        (50.0, None, "promised", DeadlineState.AT_RISK),  # no end can be named
        (50.0, 1e-6, "promised", DeadlineState.ON_TRACK),  # rounding
        (50.0, 0.3, "promised", DeadlineState.AT_RISK),  # as late it would be missed
        (50.0, -10.0, "at_risk", DeadlineState.AT_RISK),  # the plan does not fit
        (50.0, 9.0, "profiling", DeadlineState.ON_TRACK),  # a guess
        (50.0, None, "profiling", DeadlineState.ON_TRACK),
        (50.0, None, "nowhere", DeadlineState.AT_RISK),  # the nodes that are left lack what it needs
        (50.0, -10.0, "nowhere", DeadlineState.AT_RISK),
        (-0.1, -10.0, "promised", DeadlineState.LATE),
        (-0.1, 0.0, "profiling", DeadlineState.LATE),
    ],
)
def test_how_a_deadline_stands(
    before_s: float, late_s: float | None, code: str, state: DeadlineState
) -> None:
    view = job_view(deadline_s=DEADLINE_S, reason_code=code, is_promised=code != "profiling")
    expected_s = None if late_s is None else DEADLINE_S + late_s
    assert deadline_state(view, DEADLINE_S - before_s, expected_s) is state

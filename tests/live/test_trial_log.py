"""What the platform's log says of trial runs."""

from __future__ import annotations

import pytest

from swell.live.trial_log import TrialLog
from swell.model.event import Outcome, ProfilingFailed

from .turns import turn


def lost(**fields: object) -> ProfilingFailed:
    told = {"at_s": 1.0, "job_id": "lm-1", "message": "worker 0 was killed (SIGKILL)\n"} | fields
    return ProfilingFailed(**told)  # type: ignore[arg-type]


def test_a_lost_trial_run_is_one_line_and_one_that_failed_or_waits_is_none(
    caplog: pytest.LogCaptureFixture,
) -> None:
    batch = [lost(outcome=outcome) for outcome in (Outcome.LOST, Outcome.FAILED)]
    TrialLog().hear(turn(batch=[*batch, lost(outcome=Outcome.LOST, is_taken=True)]))
    assert caplog.messages == ["the trial run of lm-1 was lost: worker 0 was killed (SIGKILL)"]

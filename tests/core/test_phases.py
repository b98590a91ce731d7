"""The table of transitions is closed, and the error of a step outside it tells the job's story."""

from __future__ import annotations

import pytest
from tests.core.fakes import spec

from swell.core.phases import ALLOWED, IllegalTransition
from swell.core.record import JobRecord, JobStatus
from swell.model.job import Phase

ENDS = {phase for phase in Phase if phase.is_end}


def test_every_phase_is_in_the_table_and_leads_to_phases_that_are() -> None:
    assert set(ALLOWED) == set(Phase)
    assert set().union(*ALLOWED.values()) <= set(Phase)


def test_every_phase_can_be_reached_and_every_open_one_can_end() -> None:
    reached = {Phase.QUEUED}
    for _ in Phase:
        reached |= {later for phase in reached for later in ALLOWED[phase]}
    assert reached == set(Phase)
    assert all(ALLOWED[phase] & ENDS for phase in Phase if phase not in ENDS)


def test_the_story_is_told() -> None:
    record = JobRecord(
        id="bert",
        spec=spec(),
        submitted_s=0.0,
        ended=Phase.FAILED,
        status=JobStatus(reason_code="failed", reason="it raised"),
    )
    record.sizes.note(3.0, 4)
    with pytest.raises(IllegalTransition, match=r"failed: it raised; \(\(3.0, 4\),\)"):
        record.end(Phase.SUCCEEDED)
    assert record.phase is Phase.FAILED

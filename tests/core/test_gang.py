"""The table of transitions is closed, and the error of a step outside it tells the job's story."""

from __future__ import annotations

import pytest
from tests.core.fakes import spec

from swell.core.gang import IllegalTransition
from swell.core.record import JobRecord, JobStatus
from swell.model.job import Phase


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

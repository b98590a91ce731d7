"""Which of the processes a job ever had are its workers now."""

from __future__ import annotations

from tests.core.fakes import spec
from tests.core.records import steady

from swell.core.gang import NO_GANG
from swell.core.record import JobRecord


def record() -> JobRecord:
    return JobRecord(id="a", spec=spec(50), submitted_s=0.0, gang=steady("d0"))


def test_the_latest_gang_is_live_and_all_are_remembered() -> None:
    job = record()
    job.become(steady("d0", "d1"))
    job.status.note_pids((11, 12))
    job.become(steady("d0", "d1", "d2"))
    job.status.note_pids((12, 11, 13))
    view = job.view()
    assert (view.live_pids, view.pids) == ((12, 11, 13), (11, 12, 13))


def test_who_holds_no_device_has_no_live_process() -> None:
    job = record()
    job.status.note_pids((11,))
    job.become(NO_GANG)
    assert (job.view().live_pids, job.view().pids) == ((), (11,))

"""Which of the processes a job ever had are its workers now."""

from __future__ import annotations

from tests.core.fakes import spec

from swell.core.record import JobRecord
from swell.model.job import Phase
from swell.model.target import NOTHING, Target


def record() -> JobRecord:
    return JobRecord(id="a", spec=spec(50), submitted_s=0.0, phase=Phase.RUNNING)


def test_the_latest_gang_is_live_and_all_are_remembered() -> None:
    job = record()
    job.settle(Target(devices=("d0", "d1")))
    job.note_pids((11, 12))
    job.settle(Target(devices=("d0", "d1", "d2")))
    job.note_pids((12, 11, 13))
    view = job.view()
    assert (view.live_pids, view.pids) == ((12, 11, 13), (11, 12, 13))


def test_who_holds_no_device_has_no_live_process() -> None:
    job = record()
    job.settle(Target(devices=("d0",)))
    job.note_pids((11,))
    job.settle(NOTHING)
    assert (job.view().live_pids, job.view().pids) == ((), (11,))

"""What is read off a journal while no platform runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.live.parts import NODE, PROFILE, spec

from swell.assemble import new_core, replay_journal, unended_jobs
from swell.model.command import LaunchGang
from swell.model.event import (
    DrainRequested,
    GangStarted,
    GangSuspended,
    JobProfiled,
    JobSubmitted,
    NodeJoined,
    Opened,
)
from swell.model.job import Phase
from swell.store.folder import StateFolder
from swell.store.journal import SqlJournal


@pytest.mark.parametrize("is_folded", [False, True])
def test_who_was_not_suspended_is_in_the_journal(tmp_path: Path, is_folded: bool) -> None:
    folder = StateFolder(tmp_path)
    core, journal = new_core(), SqlJournal(folder.journal)
    arrivals = [JobSubmitted(at_s=1.0, job_id=name, spec=spec(name, max_workers=1)) for name in "ab"]
    trials = [JobProfiled(at_s=2.0, job_id=name, profile=PROFILE) for name in "ab"]
    commands = []
    for batch in ([Opened(at_s=1.0), NodeJoined(at_s=1.0, node=NODE)], arrivals, trials):
        journal.append(batch)
        commands += core.handle(batch)
    assert {command.job_id for command in commands if isinstance(command, LaunchGang)} == {"a", "b"}
    started = [
        GangStarted(at_s=3.0, job_id=name, generation=1, steps=0, pids=(pid,))
        for name, pid in (("a", 7), ("b", 8))
    ]
    suspended = [GangSuspended(at_s=5.0, job_id="b", generation=1, steps=3)]
    for batch in (started, [DrainRequested(at_s=4.0)], suspended):
        journal.append(batch)
        core.handle(batch)
    if is_folded:
        journal.fold(core.save(), (), ())
    journal.close()

    jobs = unended_jobs(tmp_path)
    assert [(job.id, job.phase.holds_devices, job.live_pids) for job in jobs] == [
        ("a", True, (7,)),
        ("b", False, ()),
    ]
    assert jobs[1].phase is Phase.QUEUED
    assert replay_journal(tmp_path).num_batches == (0 if is_folded else 6)

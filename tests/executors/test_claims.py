"""What a host says to a controller that is new of runs of an earlier one."""

from __future__ import annotations

from pathlib import Path

import msgspec
from tests.executors.puppets import make_spec

from swell.executors.hosts import messages as h
from swell.executors.hosts.file_messages import FilesKept, JobCheckpoint, WorkerLog
from swell.executors.remote.claims import Claimant, Claims
from swell.model.event import GangEnded, Outcome

JOB, HOST = "job-1", Claimant("n1", "machine")
OPENED = h.OpenRun(run=JOB, job_id=JOB, spec=make_spec())
END = GangEnded(at_s=5, job_id=JOB, generation=3, outcome=Outcome.LOST, steps=7)


def kept(order: h.OpenRun) -> h.RunKept:
    return h.RunKept(order=order, first_worker=0, checkpoint_dir="/c", record=None, workers=())


def test_a_host_speaks_of_runs_that_it_was_given_and_of_no_others(tmp_path: Path) -> None:
    Claims(tmp_path).note_told(HOST, OPENED)
    claims = Claims(tmp_path)  # those of the next controller
    trial = msgspec.structs.replace(OPENED, run=h.trial_run(JOB))
    own: list[h.RunKept | h.EndKept] = [kept(OPENED), kept(trial), h.EndKept(end=END)]
    assert [claims.why_not(HOST, one) for one in own] == ["", "", ""]
    for other in (Claimant("n2", "machine"), Claimant("n1", "another")):
        assert all("no earlier agent gave it that" in claims.why_not(other, one) for one in own)
    foreign: list[h.RunKept | h.EndKept] = [
        kept(msgspec.structs.replace(OPENED, job_id="victim")),
        kept(msgspec.structs.replace(OPENED, run="victim")),
        kept(msgspec.structs.replace(OPENED, run="victim", job_id="../job-1")),
        h.EndKept(end=msgspec.structs.replace(END, job_id="victim")),
    ]
    assert all(claims.why_not(HOST, one) for one in foreign)


def test_files_are_those_of_jobs_that_the_host_had_and_of_no_others(tmp_path: Path) -> None:
    Claims(tmp_path).note_told(HOST, OPENED)
    said = FilesKept(
        checkpoints=tuple(JobCheckpoint(job_id=job, name="c") for job in (JOB, "victim", "../job-1")),
        logs=tuple(WorkerLog(job_id=job, worker=0, is_trial=False) for job in ("victim", JOB)),
    )
    true = FilesKept(checkpoints=said.checkpoints[:1], logs=said.logs[1:])
    assert Claims(tmp_path).true_part(HOST, said) == true
    assert Claims(tmp_path).true_part(Claimant("n2", "machine"), said) == FilesKept(checkpoints=(), logs=())

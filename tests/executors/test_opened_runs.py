"""What a host may have of the head's files, and send there: those of jobs that were given to it."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from tests.executors.file_world import FileWorld, held, write_checkpoint
from tests.executors.puppets import make_spec
from tests.executors.test_file_names import everything, said_to
from tests.executors.test_file_transfer import JOB, order

from swell.executors.hosts import file_messages as files
from swell.executors.hosts import messages as h
from swell.executors.local.files.forwarded_log import LogName
from swell.executors.local.files.opened_runs import MAX_LATE_LOGS, OpenedRuns
from swell.model.event import Outcome
from swell.store.code_store import CodeStore
from swell.wire.checkpoint_files import checkpoint_name

OTHER = "job-2"
NAME = checkpoint_name(1, 1, hashlib.sha256(b"state").hexdigest())
RULE = "of which no run was opened there in its present term"


@pytest.fixture
def world(tmp_path: Path) -> FileWorld:
    """Two jobs; a run of the first was opened on host `a`, and one of the second on host `b`."""
    made = FileWorld(tmp_path)
    for host, job_id in (("a", JOB), ("b", OTHER)):
        assert write_checkpoint(made.submit(job_id) / "checkpoints", 1, b"state") == NAME
        made.note_started(host, LogName(job_id, 0, False))
    return made


def request(job_id: str) -> files.PartRequest:
    return files.PartRequest(file=files.JobCheckpoint(job_id=job_id, name=NAME), offset=0)


# ---------------------------------------------------------------- what others have
def test_a_host_has_checkpoints_of_its_own_jobs_only(
    world: FileWorld, caplog: pytest.LogCaptureFixture
) -> None:
    (part,) = said_to(world, "a", request(JOB))
    assert isinstance(part, files.FilePart) and part.content == b"state"
    (none,) = said_to(world, "a", request(OTHER))
    assert isinstance(none, files.NoFile) and RULE in none.why
    find = files.JobFilesRequest(run=OTHER, job_id=OTHER, is_trial=False)
    (found,) = said_to(world, "a", find)
    assert isinstance(found, files.JobFilesFound) and RULE in found.why_not and not found.checkpoint
    said_to(world, "a", files.JobFilesRequest(run=JOB, job_id=OTHER, is_trial=False))
    (line,) = caplog.messages
    assert line.startswith(f"refused host a: it asked for checkpoint {NAME} of job '{OTHER}', {RULE}; 1 ref")


def test_a_host_writes_into_folders_of_its_own_jobs_only(world: FileWorld) -> None:
    before = everything(world.head_dir)
    newer = checkpoint_name(2, 2, hashlib.sha256(b"lies").hexdigest())
    (taken,) = said_to(world, "a", files.CheckpointOffered(job_id=OTHER, name=newer, num_bytes=4))
    assert isinstance(taken, files.CheckpointTaken) and RULE in taken.why_not
    for log in (
        files.LogPiece(job_id=OTHER, worker=0, is_trial=False, content=b"lies"),
        files.LogPiece(job_id=JOB, worker=1, is_trial=False, content=b"of no worker there"),
        files.LogPiece(job_id=JOB, worker=0, is_trial=True, content=b"of no trial run there"),
        files.LogPiece(job_id=OTHER, worker=0, is_trial=False, is_leading=True),
    ):
        (answer,) = said_to(world, "a", log)
        assert isinstance(answer, files.LogTaken), "or it would wait with all that follows"
    assert everything(world.head_dir) == before


def test_a_host_has_the_code_of_its_own_jobs_only(world: FileWorld, tmp_path: Path) -> None:
    codes = []
    for number in range(2):
        project = tmp_path / f"project-{number}"
        project.mkdir()
        (project / "train.py").write_text(f"print({number})")
        codes.append(CodeStore(world.head_dir).take(str(project), str(project / "train.py")))
    world.head.note_told("a", order("job-3", code=codes[0]))
    for number, kind in enumerate([files.FilePart, files.NoFile]):
        content = hashlib.sha256(f"print({number})".encode()).hexdigest()
        for file in (files.CodeManifest(digest=codes[number]), files.CodeContent(digest=content)):
            (answer,) = said_to(world, "a", files.PartRequest(file=file, offset=0))
            assert isinstance(answer, kind)


# ---------------------------------------------------------------- how long
def test_what_was_refused_or_closed_is_no_longer_its_own(world: FileWorld) -> None:
    world.head.note_said("a", h.RunRefused(run=JOB, outcome=Outcome.LOST, why="no room"))
    (none,) = said_to(world, "a", request(JOB))
    assert isinstance(none, files.NoFile)
    world.head.note_told("b", h.CloseRun(run=OTHER))
    (none,) = said_to(world, "b", request(OTHER))
    assert isinstance(none, files.NoFile)


def test_in_another_term_nothing_is_its_own(world: FileWorld) -> None:
    world.lose("a")
    world.join("a", world.head_dir.parent / "a")
    (none,) = said_to(world, "a", request(JOB))
    assert isinstance(none, files.NoFile)


def test_a_checkpoint_that_is_under_way_when_its_run_is_closed_still_comes(world: FileWorld) -> None:
    name = world.save("a", JOB, 2, b"last")
    world.turns.take(lambda num: 0)  # the offer comes before anyone hears that the worker has left
    world.head.note_told("a", h.CloseRun(run=JOB))
    world.settle()
    assert held(world.head_dir, JOB)[0] == name


def test_output_follows_a_run_that_is_closed_until_its_end() -> None:
    opened = OpenedRuns()
    opened.note_told(h.OpenRun(run=JOB, job_id=JOB, spec=make_spec()))
    opened.note_told(h.StartWorker(run=JOB, worker=3, devices=(), environ={}))
    opened.note_told(h.CloseRun(run=JOB))
    last = files.LogPiece(job_id=JOB, worker=3, is_trial=False, content=b"bye", is_last=True)
    assert not opened.why_not(last)
    opened.note_said(last)
    assert not opened.why_not(last), "it comes again if the host did not hear that it was taken"
    assert opened.left.logs == ()


def test_silent_workers_of_trial_runs_are_not_remembered_for_ever() -> None:
    opened = OpenedRuns()
    for worker in range(MAX_LATE_LOGS + 1):
        opened.note_told(h.OpenRun(run="t", job_id=JOB, spec=make_spec(), is_trial=True))
        opened.note_told(h.StartWorker(run="t", worker=worker, devices=(), environ={}))
        opened.note_told(h.CloseRun(run="t"))
    first, last = (files.LogPiece(job_id=JOB, worker=w, is_trial=True) for w in (0, MAX_LATE_LOGS))
    assert opened.why_not(first) and not opened.why_not(last)


def test_a_new_controller_takes_what_the_former_one_had_not(world: FileWorld) -> None:
    """Of a run that was closed meanwhile, too: no other message tells of it."""
    name = world.save("a", JOB, 2, b"last")
    world.replace_controller()
    world.settle()
    assert held(world.head_dir, JOB)[0] == name


def test_what_was_kept_may_be_offered_until_it_is_taken() -> None:
    opened = OpenedRuns()
    opened.note_said(files.FilesKept(checkpoints=(files.JobCheckpoint(job_id=JOB, name=NAME),), logs=()))
    offer = files.CheckpointOffered(job_id=JOB, name=NAME, num_bytes=5)
    assert not opened.why_not(offer)
    opened.note_told(files.CheckpointTaken(job_id=JOB, name=NAME))
    assert opened.why_not(offer)

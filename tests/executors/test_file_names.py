"""Names that another machine says lead to files of jobs, and nowhere else."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from tests.executors.file_world import FileWorld, write_checkpoint
from tests.executors.test_file_transfer import JOB, order

from swell.executors.controller.worker_numbers import WorkerNumbers
from swell.executors.hosts import file_messages as files
from swell.executors.hosts import messages as h
from swell.executors.local.files.forwarded_log import LogName
from swell.executors.local.files.places import place_of
from swell.model.event import Outcome
from swell.wire.checkpoint_files import checkpoint_name

CONTENT = b"no checkpoint of the job"
DIGEST = hashlib.sha256(CONTENT).hexdigest()
NAME = checkpoint_name(1, 1, DIGEST)
JOB_IDS = ("", ".", "..", "../x", "x/..", "/proc/x", "x/", "x\0")
NAMES = (f"../{NAME}", f"x/../../{NAME}", f"/{NAME}", f"./{NAME}", f"{NAME}/", f"{NAME}\n", "..", "", "x")
DIGESTS = ("..", "../x", "/x", "", DIGEST[1:], f"{DIGEST}/", f"{DIGEST}\n", f"../{DIGEST}")


def everything(folder: Path) -> dict[Path, bytes | None]:
    """What is there, with the content of files."""
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def said_to(world: FileWorld, host: str, message: files.FileMessage) -> list[h.ToHost | h.FromHost]:
    """What the head answers to a message of a host."""
    world.told.clear()
    world.head.hear(host, message)
    while world.turns.take(lambda num: 0):
        pass
    return [message for _, message in world.told]


@pytest.fixture
def world(tmp_path: Path) -> FileWorld:
    made = FileWorld(tmp_path, "a")
    (made.submit(JOB) / "checkpoints").mkdir()
    assert write_checkpoint(made.head_dir / "jobs" / JOB, 1, CONTENT) == NAME
    for job_id in (JOB, *JOB_IDS):
        made.note_started("a", LogName(job_id, 0, False))
    for digest in DIGESTS:
        made.head.note_told("a", order(f"job of {digest!r}", code=digest))
    return made


NO_NAMES = [
    *(files.JobCheckpoint(job_id=JOB, name=name) for name in NAMES),
    *(files.JobCheckpoint(job_id=job_id, name=NAME) for job_id in JOB_IDS),
    *(files.CodeManifest(digest=digest) for digest in DIGESTS),
    *(files.CodeContent(digest=digest) for digest in DIGESTS),
]


@pytest.mark.parametrize("file", NO_NAMES, ids=repr)
def test_what_leads_elsewhere_has_no_place_and_is_not_sent(world: FileWorld, file: files.NamedFile) -> None:
    with pytest.raises(ValueError, match=r"is no name of a file|cannot name a folder"):
        place_of(world.head_dir, file)
    (answer,) = said_to(world, "a", files.PartRequest(file=file, offset=0))
    assert isinstance(answer, files.NoFile)


@pytest.mark.parametrize("job_id", JOB_IDS)
def test_a_host_can_write_and_look_nowhere_but_in_folders_of_jobs(world: FileWorld, job_id: str) -> None:
    (world.head_dir / "jobs" / "x").mkdir()
    (world.head_dir / "x").mkdir()
    before = everything(world.head_dir)
    (taken,) = said_to(world, "a", files.CheckpointOffered(job_id=job_id, name=NAME, num_bytes=1))
    assert isinstance(taken, files.CheckpointTaken) and taken.why_not
    request = files.JobFilesRequest(run=JOB, job_id=job_id, is_trial=False)
    (found,) = said_to(world, "a", request)
    assert isinstance(found, files.JobFilesFound) and found.why_not
    said_to(world, "a", files.LogPiece(job_id=job_id, worker=0, is_trial=False, content=b"x", is_last=True))
    said_to(world, "a", files.LogPiece(job_id=job_id, worker=0, is_trial=False, is_leading=True))
    numbers = WorkerNumbers(world.head_dir)
    numbers.note(job_id, 3)
    assert numbers.next_number(job_id) == 3
    assert everything(world.head_dir) == before


@pytest.mark.parametrize("name", NAMES)
def test_an_offer_of_what_is_no_checkpoint_of_the_job_is_refused(world: FileWorld, name: str) -> None:
    before = everything(world.head_dir)
    (taken,) = said_to(world, "a", files.CheckpointOffered(job_id=JOB, name=name, num_bytes=1))
    assert isinstance(taken, files.CheckpointTaken) and "is no name of a file" in taken.why_not
    assert everything(world.head_dir) == before


@pytest.mark.parametrize("name", [name for name in NAMES if name])
def test_a_host_fetches_nothing_but_checkpoints_of_the_job(world: FileWorld, name: str) -> None:
    answer = world.open("a", order())
    while not world.told:
        world.turns.take(lambda num: 0)
    world.hosts["a"].files.hear(files.JobFilesFound(run=JOB, checkpoint=name, first_worker=0))
    assert answer.refusal is not None and answer.refusal[0] is Outcome.LOST
    assert "is no name of a file" in answer.refusal[1]


@pytest.mark.parametrize("digest", [digest for digest in DIGESTS if digest])
def test_a_snapshot_that_is_named_by_no_digest_is_refused_for_good(world: FileWorld, digest: str) -> None:
    answer = world.open("a", order(code=digest))
    world.settle()
    assert answer.refusal is not None and answer.refusal[0] is Outcome.FAILED
    assert "is no name of a file" in answer.refusal[1]

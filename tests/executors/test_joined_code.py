"""The code of a job on a host that has nothing of the machine where it was submitted."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.executors.file_world import FileWorld, leftovers
from tests.executors.puppets import make_spec

from swell.executors.hosts import messages as h
from swell.executors.hosts.file_messages import CodeContent, FilePart, NoFile, PartRequest
from swell.executors.local.agent.job_code import written_beside
from swell.model.code import object_path, tree_path
from swell.model.event import Outcome
from swell.store.code_store import CodeStore
from swell.train.link.code_paths import edited_since, why_missing
from swell.wire import environ
from swell.wire.lease_end import LEASE_FILE

JOB = "job-1"
FILES = {"train.py": "import helper", "helper.py": "A = 1", "pkg/deep.py": "B = 2", "empty.py": ""}


class Submitted:
    """A project, submitted and then removed: it is on no host."""

    def __init__(self, folder: Path, script: str = "train.py", project: str = "project") -> None:
        self.world = FileWorld(folder)
        self.world.submit(JOB)
        self.project = folder / project
        for name, text in FILES.items():
            path = self.project / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        (self.project / "large.bin").write_bytes(b"x" * (2 << 20))
        (folder / "data").write_text("beside the project")
        digest = CodeStore(self.world.head_dir).take(str(self.project), str(self.project / script))
        self.spec = make_spec(
            entry=str(self.project / script), workdir=str(self.project), code=digest, env=(("A", "b"),)
        )

    def leave(self) -> None:
        shutil.rmtree(os.path.realpath(self.project))

    @property
    def order(self) -> h.OpenRun:
        return h.OpenRun(run=JOB, job_id=JOB, spec=self.spec)


@pytest.fixture
def submitted(tmp_path: Path) -> Submitted:
    return Submitted(tmp_path)


def sent(world: FileWorld, host: str) -> list[object]:
    """Files of which parts were sent to a host."""
    return [m.file for name, m in world.told if name == host and isinstance(m, FilePart)]


def test_the_snapshot_comes_and_nothing_else(submitted: Submitted) -> None:
    submitted.leave()
    world = submitted.world
    answer = world.open("a", submitted.order)
    world.settle()
    assert answer.place is not None
    project, state_dir = Path(answer.place.workdir), world.hosts["a"].state_dir
    assert Path(answer.place.entry) == project / "train.py"
    there = {str(p.relative_to(project)): p.read_text() for p in project.rglob("*") if p.is_file()}
    assert there == FILES
    assert not any(path.is_symlink() for path in answer.place.folder.rglob("*"))
    assert answer.place.environ == {environ.AWAY: "a", environ.LEASE: str(state_dir / LEASE_FILE)}
    assert not leftovers(state_dir)


def test_it_is_sent_once_to_each_host_and_what_is_there_is_not_sent_at_all(submitted: Submitted) -> None:
    world = submitted.world
    for host in "ab":
        for job in (JOB, JOB, "job-2"):
            answer = world.open(host, h.OpenRun(run=job, job_id=job, spec=submitted.spec))
            world.settle()
            assert answer.place is not None
        files = sent(world, host)
        assert len(files) == len(set(files)) == len(FILES) + 1


def test_two_jobs_that_open_at_the_same_time_fetch_it_once(submitted: Submitted) -> None:
    world = submitted.world
    answers = [world.open("a", h.OpenRun(run=job, job_id=job, spec=submitted.spec)) for job in (JOB, "job-2")]
    world.settle()
    assert all(answer.place is not None for answer in answers)
    assert len(sent(world, "a")) == len(FILES) + 1


def test_the_working_directory_is_the_jobs_own_where_the_host_has_it(submitted: Submitted) -> None:
    answer = submitted.world.open("a", submitted.order)
    submitted.world.settle()
    assert answer.place is not None
    assert answer.place.workdir == str(submitted.project)
    assert answer.place.entry.startswith(str(answer.place.folder))


def test_a_project_that_was_submitted_through_a_link_is_found(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "home").symlink_to("real")
    submitted = Submitted(tmp_path, project="home/project")
    submitted.leave()
    (tmp_path / "home").unlink()
    answer = submitted.world.open("a", submitted.order)
    submitted.world.settle()
    assert answer.place is not None
    assert Path(answer.place.entry).read_text() == FILES["train.py"]
    assert Path(answer.place.workdir, "helper.py").read_text() == FILES["helper.py"]


def test_what_a_script_writes_beside_its_code_is_told_there_too(submitted: Submitted) -> None:
    submitted.leave()
    answer = submitted.world.open("a", submitted.order)
    submitted.world.settle()
    assert answer.place is not None
    assert written_beside(answer.place.folder) == ""
    Path(answer.place.workdir, "out.txt").write_text("x")
    assert "out.txt" in written_beside(answer.place.folder)


@settings(deadline=None, max_examples=30)
@given(data=st.data())
def test_damaged_code_is_never_run(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    submitted = Submitted(tmp_path_factory.mktemp("damaged"))
    world, bad = submitted.world, data.draw(st.integers(0, len(FILES)))

    def corrupt(part: FilePart) -> FilePart:
        is_code = isinstance(part.file, CodeContent)
        is_bad = bad > 0 and part.file == CodeContent(digest=digests[bad - 1]) if is_code else bad == 0
        return FilePart(file=part.file, offset=0, content=b"?", num_bytes=1) if is_bad else part

    content = tree_path(world.head_dir, submitted.spec.code).read_bytes()
    digests = sorted(p.name for p in (world.head_dir / "code" / "objects").glob("*/*"))
    assert content
    world.corrupt = corrupt
    answer = world.open("a", submitted.order)
    world.settle(lambda num: data.draw(st.integers(0, num - 1)))
    assert answer.place is None and answer.refusal is not None
    assert answer.refusal[0] is Outcome.LOST and "came damaged" in answer.refusal[1]
    assert not leftovers(world.hosts["a"].state_dir)
    world.corrupt = lambda part: part
    again = world.open("a", submitted.order)
    world.settle()
    assert again.place is not None


def test_code_that_is_gone_from_the_head_fails_the_job(submitted: Submitted) -> None:
    world = submitted.world
    gone = next((world.head_dir / "code" / "objects").glob("*/*"))
    gone.unlink()
    answer = world.open("a", submitted.order)
    world.settle()
    assert answer.refusal is not None and answer.refusal[0] is Outcome.FAILED
    assert "is gone from the head" in answer.refusal[1] and "submit it again" in answer.refusal[1]


def test_a_host_asks_for_no_other_file_of_the_head(submitted: Submitted) -> None:
    world = submitted.world
    (world.head_dir / "agent.json").write_text("secret")
    for digest in ("../../../agent.json", "x", "0" * 64):
        world.head.hear("a", PartRequest(file=CodeContent(digest=digest), offset=0))
    world.settle()
    assert not sent(world, "a")
    assert len([m for _, m in world.told if isinstance(m, NoFile)]) == 3
    assert object_path(world.head_dir, "0" * 64).parent.exists() is False


def test_a_file_that_is_not_on_the_host_is_told_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    error = FileNotFoundError(2, "No such file or directory", "/state/jobs/j/code/home/u/data.bin")
    assert why_missing(error) == ""
    monkeypatch.setenv(environ.AWAY, "n2")
    monkeypatch.setenv(environ.CODE, "/state/jobs/j/code")
    told = why_missing(error)
    assert told.startswith("/home/u/data.bin is not on host 'n2'") and "`needs`" in told
    assert why_missing(ValueError()) == ""
    assert not edited_since("/state/jobs/j/code/home/u/train.py")

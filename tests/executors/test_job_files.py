"""The files of a job on a host that has nothing of the machine where it was submitted but the storage."""

from __future__ import annotations

import errno
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.eventually import PATIENCE_S
from tests.executors.puppets import make_spec

from swell.executors import storage as storage_module
from swell.executors.gang import host_messages as h
from swell.executors.local.agent import job_files
from swell.executors.local.agent.job_files import JobPlace, place_job
from swell.executors.local.agent.options import AgentOptions
from swell.executors.local.agent.run_logs import RunLogSet
from swell.executors.local.logs.files import TRIAL, log_path
from swell.executors.storage import MARK_FILE, job_folder, why_not_shared, write_mark
from swell.model.event import Outcome
from swell.store.code_store import CodeStore
from swell.train.link.code_paths import why_missing
from swell.wire import environ
from swell.wire.lease_end import LEASE_FILE

JOB = "job-1"
FILES = {"train.py": "import helper", "helper.py": "A = 1", "pkg/deep.py": "B = 2", "empty.py": ""}


class Submitted:
    """A job in a storage, and its project."""

    def __init__(self, folder: Path, script: str = "train.py", project: str = "project") -> None:
        self.storage = folder / "storage"
        self.project = folder / project
        for name, text in FILES.items():
            path = self.project / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        (self.project / "large.bin").write_bytes(b"x" * (2 << 20))
        digest = CodeStore(self.storage).take_snapshot(str(self.project), str(self.project / script)).digest
        self.folder = job_folder(self.storage, JOB)
        self.spec = make_spec(
            entry=str(self.project / script), workdir=str(self.project), code=digest, env=(("A", "b"),)
        )

    def leave(self) -> None:
        """The project is on no host."""
        shutil.rmtree(os.path.realpath(self.project))

    def open(self, host: str, **changes: Any) -> JobPlace | h.RunRefused:
        options = AgentOptions(
            state_dir=self.storage.parent / host,
            preload=(),
            call="",
            joined_as=host,
            storage=str(self.storage),
        )
        spec = msgspec.structs.replace(self.spec, **changes)
        return place_job(options, h.OpenRun(run=JOB, job_id=JOB, spec=spec), lambda *_: "")

    def placed(self, host: str) -> JobPlace:
        place = self.open(host)
        assert isinstance(place, JobPlace), place
        return place

    def refused(self, **changes: Any) -> h.RunRefused:
        refusal = self.open("a", **changes)
        assert isinstance(refusal, h.RunRefused)
        return refusal


@pytest.fixture
def submitted(tmp_path: Path) -> Submitted:
    return Submitted(tmp_path)


def test_the_snapshot_is_there_with_all_its_files(submitted: Submitted) -> None:
    submitted.leave()
    place = submitted.placed("a")
    project = Path(place.workdir)
    assert Path(place.entry) == project / "train.py"
    assert {str(p.relative_to(project)): p.read_text() for p in project.rglob("*") if p.is_file()} == FILES
    lease = submitted.storage.parent / "a" / LEASE_FILE
    assert place.environ == {environ.AWAY: "a", environ.LEASE: str(lease)}


def test_hosts_that_open_a_run_at_the_same_time_have_one_tree(
    submitted: Submitted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have made it before the first one names it."""
    both, fill = threading.Barrier(2), job_files._fill

    def fill_together(*parts: Any) -> None:
        fill(*parts)
        both.wait(PATIENCE_S)

    monkeypatch.setattr(job_files, "_fill", fill_together)
    places: list[JobPlace] = []
    hosts = [
        threading.Thread(target=lambda name=name: places.append(submitted.placed(name))) for name in "ab"
    ]
    for host in hosts:
        host.start()
    for host in hosts:
        host.join()
    assert len(places) == 2 and places[0].entry == places[1].entry
    assert Path(places[0].entry).read_text() == FILES["train.py"]
    assert not list(submitted.folder.glob(".code*"))


def test_workers_have_numbers_that_no_host_has_given(submitted: Submitted) -> None:
    assert submitted.placed("a").first_worker == 0
    log_path(submitted.folder, "worker", 6).touch()
    assert submitted.placed("b").first_worker == 7


def damage(path: Path) -> None:
    path.write_bytes(b"?")


@pytest.mark.parametrize("harm", [damage, Path.unlink])
def test_code_that_is_damaged_or_gone_is_never_run(
    submitted: Submitted, harm: Callable[[Path], object]
) -> None:
    harm(next((submitted.storage / "code" / "objects").glob("*/*")))
    refusal = submitted.refused()
    assert refusal.outcome is Outcome.FAILED
    assert "gone or damaged" in refusal.why and "submit it again" in refusal.why
    assert not list(submitted.folder.glob(".code*")) and not (submitted.folder / "code").exists()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"needs": ("/none/data",)}, "/none/data is not on host 'a', and the job needs it (`needs`)"),
        ({"python": "/none/python"}, "its interpreter /none/python (`python`) is no program on host 'a'"),
        ({"code": "", "workdir": "/none"}, "/none is not on host 'a'; with `code: live` it must have"),
        ({"code": "", "workdir": "/", "entry": "/none/a.py"}, "/none/a.py is not on host 'a'; with `code:"),
        ({"image": "i", "workdir": "/none"}, "its workdir /none is not on host 'a', and its container"),
    ],
)
def test_a_host_that_lacks_what_a_job_has_elsewhere_refuses_it(
    submitted: Submitted, changes: dict[str, Any], said: str
) -> None:
    refusal = submitted.refused(**changes)
    assert refusal.outcome is Outcome.LOST and refusal.is_lacking and refusal.why.startswith(said)


def test_a_storage_that_is_full_refuses_the_run_for_now(
    submitted: Submitted, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(job_files, "_copy", no_room)
    refusal = submitted.refused()
    assert refusal.outcome is Outcome.LOST and "No space left on device" in refusal.why
    assert not list(submitted.folder.glob(".code*"))


def test_a_file_that_is_not_on_the_host_is_told_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    error = FileNotFoundError(2, "No such file or directory", "/state/jobs/j/code/home/u/data.bin")
    assert why_missing(error) == ""
    monkeypatch.setenv(environ.AWAY, "n2")
    monkeypatch.setenv(environ.CODE, "/state/jobs/j/code")
    told = why_missing(error)
    assert told.startswith("/home/u/data.bin is not on host 'n2'") and "`needs`" in told
    assert why_missing(ValueError()) == ""


# ---------------------------------------------------------------- the storage
@pytest.fixture
def storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(storage_module, "ANSWER_S", 0.1)
    (tmp_path / "jobs").mkdir()
    return tmp_path


def test_a_storage_that_does_not_answer_keeps_no_host_waiting(storage: Path) -> None:
    os.mkfifo(storage / MARK_FILE)  # nobody writes there: to read it waits
    why = why_not_shared(storage, "mark")
    (storage / MARK_FILE).write_text("mark")
    assert why == f"the storage {storage} cannot be used on this machine (it does not answer within 0.1 s)"


def test_a_storage_that_cannot_be_written_is_refused(storage: Path) -> None:
    mark = write_mark(storage)
    assert why_not_shared(storage, mark) == ""
    (storage / "jobs").rmdir()
    assert "no such folder" in why_not_shared(storage, mark)
    assert "another folder" in why_not_shared(storage, "mark")


@pytest.mark.parametrize("is_tail_wanted", [True, False])
def test_a_worker_has_ended_though_the_storage_does_not_show_its_log(
    storage: Path, monkeypatch: pytest.MonkeyPatch, is_tail_wanted: bool
) -> None:
    def fail(*asked: object, **how: object) -> object:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    logs = RunLogSet(storage / "jobs", storage / "jobs", TRIAL)
    monkeypatch.setattr(os, "listdir", fail)
    monkeypatch.setattr(Path, "exists", fail)
    assert logs.end(0, is_tail_wanted) == ""

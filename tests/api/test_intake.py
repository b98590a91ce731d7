"""What keeps a submission from becoming a job, and what its user can do about it."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import httpx
import pytest
from tests.api.fake_control import FakeControl
from tests.live.parts import spec

from swell.api.connections import ApiServer, bind
from swell.api.intake import SubmissionCheck
from swell.api.intake_process import IntakeLimits, IntakeProcesses
from swell.api.role import Role
from swell.api.server import create_app
from swell.api.submission import Submission
from swell.api.user_files import RealPaths, SubmittedFiles
from swell.api.user_list import TenantLimits, UserList
from swell.model.code import CodeLimits
from swell.model.errors import InvalidJob, Unwritable
from swell.store.code_store import CodeStore
from swell.store.folder import StateFolder

pytest.importorskip("torch")


@pytest.mark.parametrize(
    ("number", "known_as", "text"),
    [
        (errno.ENOSPC, Unwritable, "make room on its disk"),
        (errno.EDQUOT, Unwritable, "make room on its disk"),
        (errno.EACCES, InvalidJob, "cannot be stored"),
    ],
)
def test_code_that_cannot_be_kept_is_no_fault_of_the_job_where_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, known_as: type[Exception], text: str
) -> None:
    def fail(*_: object) -> str:
        raise OSError(number, "no luck")

    monkeypatch.setattr(CodeStore, "take_snapshot", fail)
    intake = SubmissionCheck(StateFolder(tmp_path), CodeLimits())
    with pytest.raises(known_as, match=text):
        intake.prepare(Submission(global_batch=8, steps=1), spec(), user="")


# ---------------------------------------------------------------- what a hostile folder takes
def stars(folder: Path) -> None:
    (folder / ".swellignore").write_text("*a" * 30 + "b\n")
    (folder / ("a" * 120)).touch()


def many_statements(folder: Path) -> None:
    (folder / "train.py").write_text("a;" * (2**19 - 2) + "a")


ENOUGH = {"memory_bytes": 2**31, "cpu_s": 60, "wall_s": 60.0}


@pytest.mark.parametrize(
    ("attack", "limits", "told"),
    [
        (stars, {"cpu_s": 1}, "takes more than 1 s of processor time"),
        (stars, {"wall_s": 5.0}, "or 2.1 GB of memory; make the script smaller, write .swellignore with"),
        (many_statements, {"memory_bytes": 2**28}, "too large or nested too deeply to be parsed"),
    ],
)
def test_what_takes_too_much_is_refused_and_the_next_one_is_looked_at(
    tmp_path: Path, attack: Callable[[Path], None], limits: dict[str, float], told: str
) -> None:
    (work := tmp_path / "work").mkdir()
    (script := work / "train.py").write_text("import swell")
    attack(work)
    processes = IntakeProcesses(IntakeLimits(**ENOUGH | limits))
    store, read = CodeStore(tmp_path / "state"), partial(processes.read_snapshot, "")
    files = SubmittedFiles(workdir=str(work), script=str(script), is_live=True, is_read=True)
    with pytest.raises(InvalidJob, match=told):
        processes.check_files("", files)
        store.take_snapshot(str(work), str(script), read)
    (work / ".swellignore").unlink(missing_ok=True)
    script.write_text("import swell")
    assert processes.check_files("", files) == RealPaths(str(work), str(script))
    assert store.take_snapshot(str(work), str(script), read).intake.new
    processes.__exit__()


# ---------------------------------------------------------------- users of a platform
TOKEN = "t" * 40


class Site:
    """A server with a user who submits for a tenant, and who may name one folder."""

    def __init__(self, root: Path) -> None:
        self.allowed, self.outside, folder = root / "allowed", root / "outside", StateFolder(root / "state")
        folder.create()
        for own in (self.allowed, self.outside):
            own.mkdir()
            (own / "train.py").write_text("from swell import train")
        self.code, self.users = folder.code, UserList(folder.path)
        self.token = self.users.add("ana", Role.SUBMIT, "vision")
        self.intake = SubmissionCheck(folder, CodeLimits(), [str(self.allowed)])
        app = create_app(FakeControl(folder.jobs), TOKEN, self.users, self.intake)
        self.server = ApiServer(app, bind())

    def submit(self, folder: Path, token: str = "", **fields: object) -> httpx.Response:
        job = {"script": str(folder / "train.py"), "workdir": str(folder), "global_batch": 8, "steps": 9}
        headers = {"Authorization": f"Bearer {token or self.token}"}
        url = f"http://127.0.0.1:{self.server.port}/v1/jobs"
        return httpx.post(url, json=job | fields, headers=headers, trust_env=False)

    def kept(self) -> set[Path]:
        return {path for path in self.code.rglob("*") if path.is_file()}


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path)
    with site.intake.processes:
        site.server.start()
        yield site
        site.server.stop()


def test_a_user_names_no_folder_of_the_owner(site: Site) -> None:
    (site.allowed / "link").symlink_to(site.outside)
    for fields in ({}, {"workdir": str(site.allowed)}, {"script": str(site.allowed / "train.py")}):
        refused = site.submit(site.outside, **fields)
        assert refused.status_code == 422
        assert f"users of this platform may name ({site.allowed})" in refused.json()["error"]
    assert site.submit(site.allowed / "link").status_code == 422
    assert site.submit(site.allowed).status_code == 201
    assert site.submit(site.outside, TOKEN).status_code == 201


def test_a_refused_submission_leaves_nothing_on_the_disk(site: Site) -> None:
    site.users.limit("vision", TenantLimits(open_jobs=1))
    (site.allowed / "data.bin").write_bytes(os.urandom(2**19))
    assert site.submit(site.allowed).status_code == 201
    before = site.kept()
    assert len(before) == 3, "script, data and manifest"
    for size in range(3):
        (site.allowed / "data.bin").write_bytes(os.urandom(2**18 + size))
        assert site.submit(site.allowed).status_code == 409
    assert site.kept() == before

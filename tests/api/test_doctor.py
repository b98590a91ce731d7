"""What is found in a state folder, and copies of it."""

from __future__ import annotations

import base64
import errno
import hashlib
import shutil
import sqlite3
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest
from tests.api.stage import on_stage
from tests.live.test_platform import until

from swell.api.doctor import examine
from swell.api.role import Role
from swell.api.user_list import TenantLimits, UserList
from swell.assemble import open_platform, unended_jobs
from swell.executors.remote.certificate import CERTIFICATE_FILE
from swell.executors.remote.join_tokens import TOKENS_FILE
from swell.model.event import EventSetAside, Outcome, PlanFailed, Woke
from swell.model.finding import Level
from swell.model.quota import Quota
from swell.platform_options import PlatformOptions
from swell.store import copies
from swell.store.copies import back_up, restore
from swell.store.errors import StateError
from swell.store.folder import StateFolder
from swell.store.journal import SqlJournal
from swell.store.lock import lock_state
from swell.wire.whole_files import write_whole


@dataclass(frozen=True, slots=True)
class Site:
    """A platform that is down, with two open jobs and two ended ones."""

    folder: StateFolder
    open_jobs: frozenset[str]
    ended: frozenset[str]

    def copy(self, to: Path) -> Site:
        shutil.copytree(self.folder.path, to, ignore=shutil.ignore_patterns("*.sock"))
        return Site(StateFolder(to), self.open_jobs, self.ended)

    def levels(self) -> dict[str, Level]:
        """The worst of each kind of finding."""
        found: dict[str, Level] = {}
        order = [Level.OK, Level.WARN, Level.BAD]
        for finding in examine(self.folder.path):
            found[finding.about] = max(found.get(finding.about, Level.OK), finding.level, key=order.index)
        return found

    def bad(self) -> set[str]:
        return {about for about, level in self.levels().items() if level is not Level.OK}


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Site:
    path = tmp_path_factory.mktemp("site") / "state"
    script = path.parent / "train.py"
    script.write_text("")
    with on_stage(path) as stage:
        succeeded = stage.run(script, name="won", workers=1)
        cancelled = stage.run(script, name="gone", workers=1)
        stage.hands.deliver(stage.hands.ended(succeeded, Outcome.SUCCEEDED))
        stage.client.cancel(cancelled)
        until(lambda: all(stage.client.job(job).phase.is_end for job in (succeeded, cancelled)))
        open_jobs = [stage.run(script, name=name, workers=1) for name in ("one", "two")]
        folder = stage.folder
        for number, job in enumerate(open_jobs):
            content = f"state {job}".encode()
            place = folder.jobs / job / "checkpoints"
            place.mkdir()
            name = f"step-{40 + number:012d}.{hashlib.sha256(content).hexdigest()}.pt"
            (place / name).write_bytes(content)
        shutil.copytree(
            folder.path, path.parent / "killed", ignore=shutil.ignore_patterns("*.sock")
        )  # as a kill at this moment would leave it
    return Site(folder, frozenset(open_jobs), frozenset((succeeded, cancelled)))


@pytest.fixture
def site(original: Site, tmp_path: Path) -> Site:
    return original.copy(tmp_path / "state")


@pytest.fixture
def killed(original: Site, tmp_path: Path) -> Site:
    return Site(StateFolder(original.folder.path.parent / "killed"), original.open_jobs, original.ended).copy(
        tmp_path / "state"
    )


def test_all_is_well(site: Site) -> None:
    assert site.bad() == set()


def test_looking_changes_nothing(killed: Site) -> None:
    def everything() -> dict[Path, tuple[bytes, int]]:
        files = [file for file in killed.folder.path.rglob("*") if file.is_file()]
        return {file: (file.read_bytes(), file.stat().st_mtime_ns) for file in files}

    before = everything()
    assert killed.bad() <= {"daemon"}
    assert everything() == before


def test_a_platform_that_is_up_is_examined_too(tmp_path: Path) -> None:
    with on_stage(tmp_path / "state") as stage, lock_state(stage.folder.lock):
        findings = {found.about: found for found in examine(stage.folder.path)}
        assert "is up (pid " in findings["daemon"].text
        assert findings["journal"].level is Level.OK


@pytest.mark.parametrize(
    ("harm", "about"),
    [
        (lambda site: site.folder.path.chmod(0o755), "folder"),
        (lambda site: site.folder.options.write_text("{"), "options"),
        (lambda site: site.folder.journal.write_bytes(b""), "journal"),
        (lambda site: site.folder.journal.unlink(), "journal"),
        (lambda site: (site.folder.jobs / "stranger-1").mkdir(), "jobs"),
        (lambda site: shutil.rmtree(site.folder.jobs / min(site.open_jobs)), "jobs"),
        (
            lambda site: next((site.folder.jobs / min(site.open_jobs)).rglob("*.pt")).write_bytes(b"x"),
            "checkpoints",
        ),
    ],
)
def test_what_is_wrong_is_named(site: Site, harm: Callable[[Site], object], about: str) -> None:
    harm(site)
    assert site.bad() == {about}
    (finding,) = [found for found in examine(site.folder.path) if found.level is not Level.OK]
    assert finding.remedy


def test_what_the_head_could_not_handle_is_told_with_its_trace(killed: Site) -> None:
    journal = SqlJournal(killed.folder.journal)
    job_id = min(killed.open_jobs)
    told = {"why": "ValueError: of this job", "trace": "Traceback:\n  line 1"}
    journal.append([EventSetAside(at_s=1e9, job_id=job_id, event=Woke(at_s=1e9), **told)])
    journal.append([Woke(at_s=2e9), PlanFailed(at_s=2e9, why="of the policy", trace=told["trace"])])
    journal.close()
    found = {finding.about: finding for finding in examine(killed.folder.path)}
    aside, plan = found["set aside"], found["plan"]
    assert aside.level is plan.level is Level.WARN
    assert (
        aside.text.startswith(f"Woke of job {job_id}, which has failed: ValueError")
        and "line 1" in aside.text
    )
    assert "of the policy" in plan.text and "report" in plan.remedy
    assert killed.bad() == {"set aside", "plan", "daemon"}


def _shorten(journal: Path) -> None:
    journal.write_bytes(journal.read_bytes()[:-8000])


def _garble(journal: Path) -> None:
    with sqlite3.connect(journal) as raw:
        raw.execute("UPDATE state SET state = '{}'")
    raw.close()


def _blank(journal: Path) -> None:
    journal.unlink()
    SqlJournal(journal).close()


@pytest.mark.parametrize(
    "harm",
    [
        Path.unlink,
        lambda journal: journal.write_bytes(b""),
        lambda journal: journal.write_bytes(b"?" * 5000),
        _shorten,
        _garble,
        _blank,
    ],
    ids=["gone", "empty", "junk", "short", "state", "blank"],
)
def test_up_refuses_a_journal_that_is_lost_and_names_the_way_back(
    site: Site, harm: Callable[[Path], object]
) -> None:
    harm(site.folder.journal)
    options = PlatformOptions(devices="paced:2@100")
    with (
        pytest.raises(StateError, match=r"`swell restore` |`swell restore COPY --state"),
        open_platform(site.folder, options),
    ):
        pass


# ------------------------------------------------------------ copies
def test_a_copy_is_made_while_jobs_are_submitted_and_goes_back(tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    script = tmp_path / "train.py"
    script.write_text("")
    with on_stage(tmp_path / "state") as stage:
        first = stage.run(script, name="first", workers=1)
        assert back_up(stage.folder, copy) == ()
        stage.run(script, name="second", workers=1)
        with pytest.raises(StateError, match="is there already"):
            back_up(stage.folder, copy)
    restored = restore(stage.folder, copy)
    assert restored.journal is not None and "before-restore" in restored.journal.name
    assert "users.json" not in restored.files
    assert [job.id for job in unended_jobs(stage.folder.path)] == [first]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["copy.db", "state", "train.py"]


def listed(folder: StateFolder) -> tuple[list[str], dict[str, Quota]]:
    users = UserList(folder.path)
    return sorted(users.users()), dict(users.quotas())


def test_a_copy_has_users_and_quotas_and_they_go_back(site: Site, tmp_path: Path) -> None:
    copy, folder, users = tmp_path / "copy.db", site.folder, UserList(site.folder.path)
    token = users.add("ana", Role.VIEW)
    users.limit("vision", TenantLimits(devices=4, share=0.25, open_jobs=3))
    back_up(folder, copy)
    before = listed(folder)
    users.remove("ana")
    users.add("ben", Role.OPERATE)
    users.limit("vision", TenantLimits(open_jobs=3))
    restored = restore(folder, copy)
    former = restored.files["users.json"]
    assert former is not None
    assert listed(folder) == before == (["ana"], {"vision": Quota(devices=4, share=0.25)})
    assert UserList(folder.path).find(token) is not None
    assert stat.S_IMODE(folder.users.stat().st_mode) == 0o600
    assert b"ben" in former.read_bytes()
    assert restore(folder, copy).files["users.json"] is None, "it is the same by now"
    folder.users.unlink()
    assert "users.json" in restore(folder, copy).files and listed(folder) == before
    with sqlite3.connect(folder.journal) as raw:
        assert raw.execute("SELECT * FROM copied_files").fetchall() == []
    raw.close()


#: Files that copies carry, with a sound content.
CARRIED = {
    "users.json": b'{"users":{},"tenants":{"vision":{"open_jobs":3}}}',
    "options.json": msgspec.json.encode(PlatformOptions(devices="cpu:2", policy="fifo", preload=())),
    "webhooks.yaml": b"- url: https://example.org/hook?token=sesame\n",
    "webhook-secret": b"whsec_" + base64.b64encode(bytes(32)) + b"\n",
}


def fill(folder: StateFolder) -> None:
    for name, content in CARRIED.items():
        (folder.path / name).write_bytes(content)


def files_of(folder: StateFolder) -> dict[str, bytes]:
    """But for locks."""
    locks = (folder.lock, folder.users_lock)
    files = [path for path in folder.path.rglob("*") if path.is_file() and path not in locks]
    return {str(path.relative_to(folder.path)): path.read_bytes() for path in files}


def test_a_copy_goes_to_another_disk_with_options_and_webhooks(site: Site, tmp_path: Path) -> None:
    fill(site.folder)
    made = back_up(site.folder, tmp_path / "copy.db")
    assert set(made) == CARRIED.keys() and {CERTIFICATE_FILE, TOKENS_FILE, *made} < {*copies.CARRIED}
    assert stat.S_IMODE((tmp_path / "copy.db").stat().st_mode) == 0o600
    elsewhere = StateFolder(tmp_path / "elsewhere")
    elsewhere.create()
    restored = restore(elsewhere, tmp_path / "copy.db")
    assert restored.journal is None and restored.files == dict.fromkeys(CARRIED)
    for name, content in CARRIED.items():
        path = elsewhere.path / name
        assert path.read_bytes() == content and stat.S_IMODE(path.stat().st_mode) == 0o600
    assert {job.id for job in unended_jobs(elsewhere.path)} == site.open_jobs
    assert not list(elsewhere.path.glob(".*")), "no draft is left"


def test_a_disk_without_room_is_noticed_before_anything_is_replaced(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(site.folder)
    back_up(site.folder, tmp_path / "copy.db")
    for name in CARRIED:
        (site.folder.path / name).write_bytes(b"")
    before = files_of(site.folder)

    def write(path: Path, content: bytes, *, is_synced: bool) -> None:
        if "secret" in path.name:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        write_whole(path, content, is_synced=is_synced)

    monkeypatch.setattr(copies, "write_whole", write)
    with pytest.raises(StateError, match=r"webhook-secret.*No space left on device.*make room"):
        restore(site.folder, tmp_path / "copy.db")
    assert files_of(site.folder) == before


def test_of_a_damaged_journal_there_is_no_copy(site: Site, tmp_path: Path) -> None:
    with sqlite3.connect(site.folder.journal) as raw:
        raw.execute("UPDATE state SET state = '{'")
    raw.close()
    with pytest.raises(StateError, match=r"cannot be copied \(.*folded state.*swell restore COPY"):
        back_up(site.folder, tmp_path / "copy")
    before = site.folder.journal.read_bytes()
    (tmp_path / "junk").write_bytes(b"junk" * 2000)
    with pytest.raises(StateError, match="junk is no sound copy of a journal"):
        restore(site.folder, tmp_path / "junk")
    assert site.folder.journal.read_bytes() == before
    assert sorted(file.name for file in tmp_path.iterdir()) == ["junk", "state"]

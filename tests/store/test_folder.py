from __future__ import annotations

import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

import swell
from swell.cli import main
from swell.platform_options import PlatformOptions
from swell.store.errors import StateError, StateHeld
from swell.store.folder import StateFolder, default_path
from swell.store.lock import lock_state


def mode(path: Path) -> str:
    return oct(path.stat().st_mode & 0o777)


def test_where_it_is_by_default() -> None:
    assert default_path({"SWELL_STATE": "/a", "XDG_STATE_HOME": "/b"}) == Path("/a")
    assert default_path({"XDG_STATE_HOME": "/b"}) == Path("/b/swell")
    assert default_path({}) == Path.home() / ".local" / "state" / "swell"


def test_it_belongs_to_its_owner(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path / "deep" / "state")
    folder.create()
    folder.ensure_token()
    assert [mode(path) for path in (folder.path, folder.jobs, folder.profiles)] == ["0o700"] * 3
    assert mode(folder.token) == "0o600"
    folder.create()


def new_folder(path: Path) -> StateFolder:
    folder = StateFolder(path)
    folder.create()
    return folder


def test_a_storage_has_the_jobs_and_their_code(tmp_path: Path) -> None:
    storage, folder = tmp_path / "storage", new_folder(tmp_path / "state")
    storage.mkdir()
    for _ in range(2):
        folder.use_storage(str(storage))
        folder.create()
    (folder.jobs / "job-1").mkdir()
    assert (storage / "jobs" / "job-1").is_dir() and folder.code.resolve() == storage / "code"


@pytest.mark.parametrize("part", [".", "jobs", "code"])
def test_a_storage_that_others_can_write_is_refused_whenever_it_is_used(tmp_path: Path, part: str) -> None:
    folder, path = new_folder(tmp_path / "state"), tmp_path / "storage" / part
    path.mkdir(parents=True)
    for mode in (0o770, 0o755, 0o702):
        path.chmod(mode)
        with (
            pytest.raises(StateError, match=f"can write folder {path}, ") if mode != 0o755 else nullcontext()
        ):
            folder.use_storage(str(tmp_path / "storage"))


def test_jobs_stay_where_they_are_until_somebody_moves_them(tmp_path: Path) -> None:
    storage, other, folder = tmp_path / "storage", tmp_path / "other", new_folder(tmp_path / "state")
    (folder.jobs / "job-1").mkdir()
    for path in (storage, other):
        path.mkdir()
    with pytest.raises(StateError, match=rf"are in {folder.path}; to have them in {storage}, .*, move"):
        folder.use_storage(str(storage))
    folder.jobs.rename(storage / "jobs")
    folder.use_storage(str(storage))
    assert (folder.jobs / "job-1").is_dir()
    for elsewhere in (str(other), ""):
        with pytest.raises(StateError, match=f"the jobs of this platform are in {storage};"):
            folder.use_storage(elsewhere)


def test_a_storage_is_of_one_platform(tmp_path: Path) -> None:
    storage, other = tmp_path / "storage", new_folder(tmp_path / "other")
    storage.mkdir()
    new_folder(tmp_path / "state").use_storage(str(storage))
    with pytest.raises(StateError, match=r"is the storage of another platform; .* or remove .*storage-id if"):
        other.use_storage(str(storage))
    (storage / "storage-id").unlink()
    other.use_storage(str(storage))


def test_a_storage_that_is_not_there_is_named(tmp_path: Path) -> None:
    storage, folder = tmp_path / "storage", new_folder(tmp_path / "state")
    with pytest.raises(StateError, match=f"the storage {storage} cannot be used.*mount its disk"):
        folder.use_storage(str(storage))
    storage.mkdir()
    folder.use_storage(str(storage))
    storage.rename(tmp_path / "unmounted")
    with pytest.raises(StateError, match=f"jobs is a link to {storage}/jobs, which is not there; mount it"):
        folder.create()


def test_a_folder_with_other_things_in_it_is_left_alone(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "thesis.tex").write_text("chapter one")
    with pytest.raises(StateError, match=r"holds other files \(thesis.tex, ...\).*--state"):
        StateFolder(tmp_path).create()
    assert mode(tmp_path) == "0o755"


@pytest.mark.parametrize("name", ["webhooks.yaml", "webhook-secret"])
def test_what_the_owner_writes_before_the_first_start_is_of_the_platform(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    StateFolder(tmp_path).create()
    assert (tmp_path / "jobs").is_dir()


@pytest.mark.parametrize("where", ["/proc/swell", "{tmp}/file", "{tmp}/file/below"])
def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path, where: str) -> None:
    (tmp_path / "file").write_text("")
    path = where.format(tmp=tmp_path)
    with pytest.raises(StateError, match=f"state folder {path} cannot be made or written .*--state"):
        StateFolder(path).create()


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")


def filled(path: Path) -> StateFolder:
    """A state folder with all that a platform leaves in it."""
    folder = StateFolder(path)
    folder.create()
    folder.ensure_token()
    for file in (folder.journal, folder.lock, folder.agent, folder.endpoint):
        file.touch()
    return folder


@needs_root
@pytest.mark.parametrize(
    "part", [".", "token", "journal.db", "daemon.lock", "agent.json", "jobs", "endpoint.json"]
)
def test_nothing_of_another_user_is_adopted(tmp_path: Path, part: str) -> None:
    folder = filled(tmp_path / "state")
    folder.check_owner()
    os.chown(folder.path / part, 12345, 12345)
    for use in (folder.check_owner, folder.create, lambda: swell.connect(folder.path)):
        with pytest.raises(StateError, match=r"belongs to user 12345, and you are user root.*chown -R"):
            use()


@needs_root
@pytest.mark.parametrize("command", ["up", "jobs", "down", "admin replay", "what-if --policy fifo"])
def test_root_refuses_another_users_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    folder = filled(tmp_path / "state")
    os.chown(folder.path, 12345, 12345)
    before = sorted((path.name, path.stat().st_mtime_ns) for path in folder.path.iterdir())
    assert main.run([*command.split(), "--state", str(folder.path)]) == 1
    assert f"swell: {folder.path} belongs to user 12345, and you are user root" in capsys.readouterr().err
    assert sorted((path.name, path.stat().st_mtime_ns) for path in folder.path.iterdir()) == before


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_a_folder_that_others_can_write_is_refused(tmp_path: Path, mode: int) -> None:
    folder = filled(tmp_path / "state")
    folder.path.chmod(mode)
    for use in (folder.create, lambda: swell.connect(folder.path)):
        with pytest.raises(StateError, match=r"others can write .*chmod -R go-w"):
            use()
    empty = tmp_path / "empty"
    empty.mkdir()
    empty.chmod(mode)
    StateFolder(empty).create()
    assert oct(empty.stat().st_mode & 0o777) == "0o700"


def test_the_token_stays_unless_others_could_read_it(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path)
    first = folder.ensure_token()
    assert len(first) >= 32
    assert folder.ensure_token() == first == folder.read_token()
    folder.token.chmod(0o644)
    assert folder.ensure_token() != first
    assert mode(folder.token) == "0o600"


HOLDER = """
import sys
from pathlib import Path
from swell.store.lock import lock_state

with lock_state(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_daemon_is_told_the_pid_of_the_first(tmp_path: Path) -> None:
    path = tmp_path / "daemon.lock"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(StateHeld, match=rf"pid {holder.pid}\).*swell down"):
        lock_state(path)
    holder.kill()
    waiting = lock_state(path, timeout_s=10.0)
    holder.communicate()
    with pytest.raises(StateHeld):
        lock_state(path, timeout_s=0.1)
    waiting.close()
    with lock_state(path):
        assert path.read_text() == f"{os.getpid()}\n"


@pytest.mark.parametrize("text", ["{", '{"colour": "red"}', '{"devices": 3}', "\x80"])
def test_options_that_cannot_be_read_name_their_file(tmp_path: Path, text: str) -> None:
    folder = StateFolder(tmp_path)
    folder.options.write_text(text, "latin-1")
    with pytest.raises(StateError, match=r"options\.json cannot be read"):
        folder.read_options(PlatformOptions)

"""The zygote: one thread, quick forks, honest reports."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
import time
from pathlib import Path

import msgspec
import psutil
import pytest
from msgspec.structs import replace
from tests.eventually import PATIENCE_S, eventually
from tests.executors.zygotes import Zygote, fork_of

from swell.executors.exit_status import NOT_STARTED
from swell.executors.local.lines import LineLink
from swell.executors.local.processes.listing import is_alive
from swell.executors.local.zygote.client import ZygoteClient, ZygoteProgram
from swell.executors.local.zygote.messages import Exited, Forked, Signal, Warm, WorkerAnswer


@pytest.mark.parametrize(
    ("module", "why"),
    [("no_processes", "Resource temporarily unavailable"), ("no_threads", "can't start new thread")],
)
def test_a_worker_for_which_there_is_no_process_is_told_of(module: str, why: str, tmp_path: Path) -> None:
    zygote = Zygote(f"tests.executors.{module}")
    try:
        assert isinstance(zygote.answer(), Warm)
        for key in "ab":
            zygote.ask(fork_of(tmp_path, key, "tell"))
            told = zygote.answer()
            assert isinstance(told, Exited) and (told.key, told.status) == (key, NOT_STARTED)
            assert why in told.message
    finally:
        zygote.end()


def test_a_worker_that_has_become_another_users_ends_no_zygote(tmp_path: Path) -> None:
    zygote = Zygote("tests.executors.no_kills")
    try:
        assert isinstance(zygote.answer(), Warm)
        pid = zygote.fork(tmp_path, "have_child", key="other-user")
        for number in (signal.SIGTERM, signal.SIGKILL):
            zygote.ask(Signal(key="other-user", signal=number))
        zygote.fork(tmp_path, "leave", key="next")
        assert zygote.answer() == Exited(key="next", status=7)
    finally:
        zygote.channel.shutdown(socket.SHUT_RDWR)
        _, errors = zygote.process.communicate(timeout=PATIENCE_S)
        zygote.end()
    assert f"signal 9 did not reach worker {pid}, for it has become another user's".encode() in errors


def test_a_worker_whose_interpreter_cannot_be_started_is_told_of_and_the_next_one_tries_again(
    tmp_path: Path,
) -> None:
    python = tmp_path / "python"
    answers: asyncio.Queue[WorkerAnswer] = asyncio.Queue()

    async def fork_twice(lock_fd: int) -> None:
        program = ZygoteProgram(str(python), (), tmp_path / "zygote.log", lock_fd)
        client = ZygoteClient(program, answers.put_nowait)
        client.fork(fork_of(tmp_path, "a", "tell"))
        told = await asyncio.wait_for(answers.get(), PATIENCE_S)
        assert isinstance(told, Exited) and (told.key, told.status) == ("a", NOT_STARTED)
        assert "No such file" in told.message
        python.symlink_to(sys.executable)
        client.fork(fork_of(tmp_path, "b", "tell"))
        again = await asyncio.wait_for(answers.get(), PATIENCE_S)
        assert "No such file" not in getattr(again, "message", "")
        await client.shut_down()

    with (tmp_path / "lock").open("wb") as lock:
        asyncio.run(fork_twice(lock.fileno()))


def test_a_module_that_starts_a_thread_is_refused() -> None:
    zygote = Zygote("tests.executors.starts_thread")
    _, errors = zygote.process.communicate(timeout=PATIENCE_S)
    assert zygote.process.returncode == 1
    assert b"cannot be forked safely" in errors
    assert b"tests.executors.starts_thread" in errors
    zygote.channel.close()


def test_what_a_preloaded_module_keeps_outlives_a_worker(tmp_path: Path) -> None:
    """As torch's libraries, which each worker would take apart at its end."""
    zygote = Zygote("tests.executors.keeps_folder")
    try:
        assert isinstance(zygote.answer(), Warm)
        zygote.fork(tmp_path, "find_folder")
        assert zygote.answer() == Exited(key="a", status=0)
        folder = Path((tmp_path / "a.log").read_text().strip())
        assert folder.is_dir()
        folder.rmdir()
    finally:
        zygote.end()


def test_of_workers_that_have_ended_by_now_those_that_were_killed_are_told_first(
    zygote: Zygote, tmp_path: Path
) -> None:
    """The others may have failed because of that: the kernel lists them in the order of their forks."""
    pids = []
    for key in ("fails", "is-killed"):
        (folder := tmp_path / key).mkdir()
        pids.append(zygote.fork(folder, "have_child", key=key))
        eventually((folder / "child").exists, f"{key} has begun")
    zygote.process.send_signal(signal.SIGSTOP)
    while psutil.Process(zygote.process.pid).status() != psutil.STATUS_STOPPED:
        time.sleep(0.01)
    for process, number in zip(map(psutil.Process, pids), (signal.SIGINT, signal.SIGKILL), strict=True):
        process.send_signal(number)
        while process.status() != psutil.STATUS_ZOMBIE:
            time.sleep(0.01)
    zygote.process.send_signal(signal.SIGCONT)
    assert zygote.answer() == Exited(key="is-killed", status=-signal.SIGKILL)
    assert zygote.answer() == Exited(key="fails", status=1)


def test_a_worker_gets_its_own_environment_folder_log_and_group(zygote: Zygote, tmp_path: Path) -> None:
    pid = zygote.fork(tmp_path, "tell", "x y", "$(touch evil)", COLOUR="blue")
    assert zygote.answer() == Exited(key="a", status=0)
    lines = (tmp_path / "a.log").read_text().splitlines()
    assert lines == [f"entry.py ['x y', '$(touch evil)'] blue {tmp_path} {pid} []", "to stderr"]


@pytest.mark.parametrize(("function", "status"), [("leave", 7), ("fail", 1), ("say_why", 1), ("missing", 1)])
def test_the_exit_status_is_the_scripts(zygote: Zygote, tmp_path: Path, function: str, status: int) -> None:
    zygote.fork(tmp_path, function)
    assert zygote.answer() == Exited(key="a", status=status)
    assert (tmp_path / "a.log").read_text()


def test_a_folder_that_is_not_there_is_told_in_the_log(zygote: Zygote, tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")
    zygote.ask(replace(fork_of(tmp_path, "b", "tell"), workdir=missing))
    assert isinstance(zygote.answer(), Forked)
    assert zygote.answer() == Exited(key="b", status=1)
    assert missing in (tmp_path / "b.log").read_text()


def test_workers_die_with_the_zygote_and_the_zygote_when_the_agent_hangs_up(
    zygote: Zygote, tmp_path: Path
) -> None:
    pid = zygote.fork(tmp_path, "have_child")
    zygote.answers.close()
    zygote.channel.close()
    assert zygote.process.wait(timeout=PATIENCE_S) == 0
    eventually(lambda: not is_alive(pid))


def test_folders_of_a_worker_are_its_users_alone_and_a_zygote_removes_those_of_its_own(
    zygote: Zygote, tmp_path: Path
) -> None:
    """In a trial run the temporary directory is one of them."""
    for number, sockets in enumerate((str(tmp_path / "agents"), f"swell-test-{tmp_path.name}")):
        key = str(number)
        fork = fork_of(tmp_path, key, "tell_folders")
        zygote.ask(replace(fork, workdir=str(tmp_path), sockets=sockets, mirror=str(tmp_path / f"m{key}")))
        assert isinstance(zygote.answer(), Forked)
        assert zygote.answer() == Exited(key=key, status=0)
        first, own = (tmp_path / f"{key}.log").read_text().splitlines()[-2:]
        assert Path(first.split()[1]).parent == Path(own) and own.endswith(sockets)
    assert (tmp_path / "agents").stat().st_mode & 0o077 == 0
    eventually(lambda: not Path(own).exists(), "the zygote has removed it")


def test_a_worker_writes_where_it_is_told_to(zygote: Zygote, tmp_path: Path) -> None:
    """Also where the zygote has asked for the temporary directory before."""
    workdir, sockets, mirror, temporary = (tmp_path / name for name in ("work", "s", "m", "t"))
    for folder in (workdir, sockets, mirror, temporary):
        folder.mkdir()
    fork = fork_of(tmp_path, "a", "tell_folders", env={"TMPDIR": str(temporary)})
    zygote.ask(replace(fork, workdir=str(workdir), sockets=str(sockets), mirror=str(mirror)))
    assert isinstance(zygote.answer(), Forked)
    assert zygote.answer() == Exited(key="a", status=0)
    own = mirror.joinpath(*workdir.parts[1:])
    assert (tmp_path / "a.log").read_text().splitlines() == [f"{own} {temporary}", str(sockets)]


def test_a_mirror_for_which_there_is_no_room_is_not_the_scripts_fault(zygote: Zygote, tmp_path: Path) -> None:
    zygote.ask(replace(fork_of(tmp_path, "a", "leave"), mirror="/proc/nowhere"))
    assert isinstance(zygote.answer(), Forked)
    assert zygote.answer() == Exited(key="a", status=143)


def test_siblings_do_not_share_random_numbers(zygote: Zygote, tmp_path: Path) -> None:
    for key in ("a", "b"):
        zygote.fork(tmp_path, "draw", key=key)
        assert zygote.answer() == Exited(key=key, status=0)
    assert (tmp_path / "a.log").read_text() != (tmp_path / "b.log").read_text()


def test_texts_have_the_same_hashes_in_all_workers_and_caches_of_torch_are_the_platforms(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A vocabulary that a script makes of a set has one order, under another agent too."""
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
    log = tmp_path / "zygote.log"
    with (tmp_path / "lock").open("w") as lock:
        child, channel = ZygoteProgram(sys.executable, (), log, lock.fileno()).start("z")
    try:
        while not (environ := psutil.Process(child.pid).environ()):
            time.sleep(0.001)  # the kernel shows it a moment after the program has begun
        assert environ["PYTHONHASHSEED"] == "0"
        assert environ["TORCHINDUCTOR_CACHE_DIR"] == str(tmp_path / "caches")
        assert (tmp_path / "caches").stat().st_mode & 0o777 == 0o700
    finally:
        channel.close()
        child.kill()
        child.wait()


def test_another_interpreter_imports_what_is_there_for_each(tmp_path: Path) -> None:
    preload = ("torch.distributed", "swell.train", "sklearn.datasets")
    own, other = (
        ZygoteProgram.of(name, preload, tmp_path, 3) for name in (sys.executable, "/env/bin/python")
    )
    assert (own.python, tuple(own.modules)) == (sys.executable, preload)
    assert (other.python, tuple(other.modules)) == ("/env/bin/python", preload[:2])
    assert own.log_path != other.log_path


def test_a_users_zygote_that_says_again_and_again_that_it_is_warm_takes_no_memory(tmp_path: Path) -> None:
    async def hear() -> int:
        program = ZygoteProgram(sys.executable, (), tmp_path / "zygote.log", 0, run_as="alice")
        client, link = ZygoteClient(program, lambda answer: None), LineLink(lambda link, line: None)
        for _ in range(1000):
            client._hear_line(link, msgspec.json.encode(Warm()))
        loop = asyncio.get_running_loop()
        return sum(not timer.cancelled() for timer in loop._scheduled)  # type: ignore[attr-defined]

    assert asyncio.run(hear()) == 1

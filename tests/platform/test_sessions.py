"""Sessions of a running platform, in windows as their users have them."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from http.client import HTTPConnection
from pathlib import Path

import psutil
import pytest
from tests.eventually import PATIENCE_S, eventually
from tests.platform.program import ENDLESS, Program, kill
from tests.platform.window import Window

from swell.api.client import connect

Open = Callable[..., Window]
SHELL = ("--", "bash", "--norc", "--noprofile")
SESSION = ("--time", "10m", "--env", "PS1=$ ")


@pytest.fixture
def window(swell: Program) -> Iterator[Open]:
    with ExitStack() as stack:

        def open_window(*words: object, size: tuple[int, int] = (24, 80)) -> Window:
            made = Window(*words, environ=swell.environ, size=size)
            stack.callback(made.close)
            return made

        yield open_window


def session_of(swell: Program, name: str) -> str:
    """The id of the newest job of that name."""
    with connect(swell.state) as client:
        return client.find_job(name).id


@pytest.mark.slow
def test_a_session_starts_on_devices_that_elastic_jobs_have(
    swell: Program, window: Open, tmp_path: Path
) -> None:
    elastic = swell.submit(tmp_path, "--epochs", ENDLESS, "--workers", "1:4")
    swell.await_training(elastic, 4, tmp_path)

    shell = window("run", *SESSION, "--name", "dev", *SHELL)
    shell.until("$ ")
    assert shell.run("echo $SWELL_DEVICES").count("/") == 1
    swell.await_training(elastic, 2, tmp_path)  # a policy may have 3 for it, or 2
    shell.type("exit 3\r")
    assert shell.wait() == 3
    assert shell.is_as_before
    failed = swell.job(session_of(swell, "dev"))
    assert (failed.message, "\x1b" in failed.reason) == ("its command ended with status 3", False)
    assert swell.job(elastic).resizes >= 1


@pytest.mark.slow
def test_a_window_is_the_sessions_terminal(swell: Program, window: Open) -> None:
    shell = window("run", *SESSION, *SHELL, size=(30, 90))
    shell.until("$ ")
    assert shell.run("stty size; echo $TERM") == "30 90\r\nxterm\r\n"
    shell.resize(33, 99)
    eventually(lambda: shell.run("stty size") == "33 99\r\n", "the new size")
    shell.until("$ ")

    shell.type("sh -c 'echo sle\"eps\"; exec sleep 1000'\r")
    shell.until("sleeps\r\n")
    shell.type(b"\x03")
    shell.type("echo status $?\r")
    shell.until("status 130\r\n")
    shell.type(b"\x15exit\r")
    assert shell.wait() == 0
    assert shell.is_as_before


@pytest.mark.slow
def test_detached_it_goes_on_and_is_attached_again(swell: Program, window: Open) -> None:
    first = window("run", *SESSION, "--name", "dev", *SHELL)
    first.until("$ ")
    first.run("kept=17")
    first.type("\r~~\x15\r~d")
    assert first.wait() == 0
    assert b"swell attach dev" in first.seen and first.is_as_before

    second = window("attach", "dev")
    second.until("$ ")
    assert second.run("echo $kept") == "17\r\n"
    third = window("attach", "dev")
    assert second.wait() == 0
    assert b"another terminal" in second.seen
    third.until("$ ")
    assert third.run("echo $kept") == "17\r\n"

    third.close()  # without a word
    fourth = window("attach", session_of(swell, "dev"))
    fourth.until("$ ")
    assert fourth.run("echo $kept") == "17\r\n"
    fourth.process.send_signal(signal.SIGTERM)
    assert fourth.wait() == 0
    assert fourth.is_as_before
    swell.ok("cancel", "dev")


@pytest.mark.slow
def test_a_session_and_its_window_outlive_kills_of_the_daemon(swell: Program, window: Open) -> None:
    shell = window("run", *SESSION, "--name", "dev", *SHELL)
    shell.until("$ ")
    shell.type("for i in $(seq 1000); do echo line $i; sleep 0.05; done\r")
    shell.until("line 5\r\n")
    assert swell.daemon_pid is not None
    kill(swell.daemon_pid)
    swell.up()
    shell.type(b"\x03")
    shell.until("^C")
    shell.until("$ ")
    shell.seen = b""
    assert shell.run("echo on") == "on\r\n"

    shell.type("for i in $(seq 100); do echo line $i; sleep 0.05; done; echo e'nd'\r")
    shell.until("line 5\r\n")
    assert swell.daemon_pid is not None
    kill(swell.daemon_pid)
    swell.up()
    numbers = [int(number) for number in re.findall(r"line (\d+)", shell.until("end\r\n"))]
    assert numbers == list(range(6, 101))  # nothing is missing, nothing twice
    shell.type("exit\r")
    assert shell.wait() == 0


@pytest.mark.slow
def test_without_a_terminal_input_and_output_are_exact(swell: Program) -> None:
    text = "".join(f"{number}\n" for number in range(500_000))
    done = subprocess.run(
        [sys.executable, "-P", "-m", "swell.cli.main", "run", *SESSION, "--", "sh", "-c", "cat; exit 9"],
        input=text,
        capture_output=True,
        text=True,
        env=swell.environ,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (done.returncode, done.stdout == text) == (9, True), done.stderr
    assert swell("run", *SESSION, "--", "echo", "hello").stdout == "hello\n"
    missing = swell("run", *SESSION, "--", "no-such-program")
    assert missing.returncode == 2 and "is no program" in missing.stderr


@pytest.mark.slow
def test_an_idle_session_is_told_so_and_ends(swell: Program, window: Open) -> None:
    shell = window("run", *SESSION, "--idle", "6s", "--name", "dev", *SHELL)
    shell.until("the session ends in")
    shell.until("was idle for 6 s")
    assert shell.wait() == 0
    view = swell.await_end(session_of(swell, "dev"))
    assert view.reason == "was idle for 6 s"
    assert swell.ok("wait", view.id) == f"{view.id}: succeeded: was idle for 6 s\n"
    assert "was idle for 6 s" in swell.ok("explain", view.id)
    assert "was idle for 6 s" in swell.ok("show", view.id)


@pytest.mark.soak
@pytest.mark.parametrize("spin", ["while :; do :; done", "setsid sh -c 'while :; do :; done' & cat"])
def test_a_session_whose_processors_compute_is_not_idle(swell: Program, window: Open, spin: str) -> None:
    shell = window("run", *SESSION, "--idle", "40s", "--name", "busy", *SHELL)
    shell.until("$ ")
    shell.type(f"{spin}\r")
    job, begun_s = session_of(swell, "busy"), time.monotonic()
    with connect(swell.state) as client:
        while time.monotonic() < begun_s + 120.0:
            assert client.job(job).phase == "running"
            time.sleep(0.5)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["Ctrl-C", "window", "no terminal"])
def test_a_session_that_waits_says_why_and_is_cancelled_with_its_window(
    swell: Program, window: Open, way: str
) -> None:
    busy = swell.ok("submit", "--devices", 4, "--time", "10m", "--no-wait", "--", "sleep", "600").split(":")[
        0
    ]
    swell.await_job(busy, lambda view: view.phase == "running", "the job that has all devices")
    words = ("run", *SESSION, "--name", "late", *SHELL)
    if way == "no terminal":
        command = [sys.executable, "-P", "-m", "swell.cli.main", *words]
        pipes = {"stdin": subprocess.DEVNULL, "stderr": subprocess.PIPE, "env": swell.environ}
        with subprocess.Popen(command, **pipes) as waiting:  # type: ignore[call-overload]
            assert "waits" in waiting.stderr.readline().decode()
            waiting.send_signal(signal.SIGINT)
            assert b"late-" in (told := waiting.stderr.read()) and b": cancelled" in told
        assert waiting.returncode == 130
    else:
        shell = window(*words)
        shell.until("waits")
        if way == "Ctrl-C":
            shell.type(b"\x03")
            shell.until(": cancelled")
            assert shell.wait() == 130
        else:
            os.close(shell.terminal)
            shell.process.wait(PATIENCE_S)
            shell.terminal = os.open(os.devnull, os.O_RDWR)
    assert swell.await_end(session_of(swell, "late"), "cancelled").started_s is None


@pytest.mark.slow
def test_a_session_is_ended_at_its_limit(swell: Program, window: Open) -> None:
    shell = window("run", "--time", "5s", "--name", "dev", *SHELL)
    shell.until("its time is over")
    assert shell.wait() == 7
    view = swell.await_end(session_of(swell, "dev"), "timed-out")
    assert view.finished_s is not None and view.started_s is not None
    assert view.finished_s - view.started_s >= 5


@pytest.mark.slow
def test_what_a_session_serves_is_reached_at_a_port_of_this_machine(
    swell: Program, window: Open, tmp_path: Path
) -> None:
    (tmp_path / "page").write_text("x" * 1_000_000)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    serve = f"{sys.executable} -m http.server -b 127.0.0.1 -d {tmp_path} {port}"
    shell = window("run", *SESSION, "--port", port, "--name", "web", "--", *serve.split())
    shell.until("Serving HTTP")
    assert f"serves port {port}" in swell.ok("show", "web")

    other = window("attach", "web", "--port")
    (own,) = re.findall(r"http://127.0.0.1:(\d+) leads", other.until(f"leads to port {port}"))
    assert own != str(port)  # which is the session's own, on this machine too
    for _ in range(2):
        with urllib.request.urlopen(f"http://127.0.0.1:{own}/page", timeout=PATIENCE_S) as answer:
            assert answer.read() == b"x" * 1_000_000
    with closing(
        HTTPConnection("127.0.0.1", int(own), timeout=PATIENCE_S)
    ) as kept:  # its user leaves it open
        kept.request("GET", "/page")
        assert kept.getresponse().read(1000) == b"x" * 1000
        other.type(b"\x03")
        assert (other.wait(), other.seen.strip(b"\r\n")) == (
            0,
            f" of {session_of(swell, 'web')}, until Ctrl-C\r\n^C".encode(),
        )
    other = window("attach", "web", "--port")
    other.until("until Ctrl-C")
    shell.type(b"\x03")
    assert shell.wait() == other.wait() == 0


@pytest.mark.slow
def test_a_user_has_sessions_on_half_of_the_devices_and_one_of_each_name(
    swell: Program, window: Open
) -> None:
    first = window("run", *SESSION, "--name", "dev", *SHELL)
    first.until("$ ")
    twice = swell("run", *SESSION, "--name", "dev", *SHELL)
    assert twice.returncode == 2 and "swell attach dev-" in twice.stderr
    large = swell("run", *SESSION, "--devices", 2, *SHELL)
    assert large.returncode == 2 and "may have 2 devices together" in large.stderr
    second = window("run", *SESSION, "--name", "other", *SHELL)
    second.until("$ ")
    third = swell("run", *SESSION, *SHELL)
    assert third.returncode == 2 and "yours have 2 already" in third.stderr
    for shell in (first, second):
        shell.type("exit\r")
        assert shell.wait() == 0


@pytest.mark.slow
def test_a_flood_of_output_does_not_go_through_the_daemon(swell: Program, window: Open) -> None:
    shell = window("run", *SESSION, *SHELL)
    shell.until("$ ")
    session = session_of(swell, "bash")
    assert swell.daemon_pid is not None
    daemon = psutil.Process(swell.daemon_pid)
    memory = daemon.memory_info().rss
    shell.type("head -c 40000000 /dev/zero | tr '\\0' 'a'; echo e'nd'\r")
    while b"end\r\n" not in shell.seen:
        swell.job(session)
        for _ in range(100):
            shell.read(0.01)
    assert daemon.memory_info().rss - memory < 50 << 20
    shell.type("exit\r")
    assert shell.wait() == 0


@pytest.mark.slow
def test_a_session_that_is_cancelled_leaves_nothing(swell: Program, window: Open) -> None:
    shell = window("run", *SESSION, "--name", "dev", *SHELL)
    shell.until("$ ")
    pids = shell.run("setsid sleep 1234 & sleep 1235 & echo $$").split()
    swell.ok("cancel", "dev")
    assert shell.wait() == 4
    eventually(lambda: not any(psutil.pid_exists(int(pid)) for pid in pids if pid.isdecimal()), "all ended")

"""The process of a session on its own: bash, Python and a full-screen program in it, and who attaches."""

from __future__ import annotations

import os
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.eventually import PATIENCE_S
from tests.executors.session_process import BASH, Attached, RunningSession, wait_for

from swell.executors.local.processes.listing import is_alive
from swell.executors.local.terminal import line_of
from swell.wire import environ
from swell.wire.messages import DevicesUsed


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Callable[..., RunningSession]]:
    with ExitStack() as stack:

        def start(*command: str, is_terminal: bool = True, **terms: Any) -> RunningSession:
            folder = Path(tempfile.mkdtemp(dir=tmp_path))
            session = RunningSession(folder, command or BASH, is_terminal, **terms)
            stack.callback(session.close)
            return session

        yield start


def test_the_command_has_a_terminal_of_the_size_of_the_window(begin: Callable[..., RunningSession]) -> None:
    shell = Attached(begin())

    assert shell.run("stty size") == "30 100\r\n"
    shell.say(size=(41, 133))
    assert shell.run("stty size; tput lines; tput cols") == "41 133\r\n41\r\n133\r\n"
    assert shell.run("test -t 0 -a -t 1 -a -t 2 && ps -o tpgid= -p $$") != ""


# A shell would not do: bash hears of the signal as it begins to read a line, and tells it with the next key.
AWAITS_SIZE = """
import os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGWINCH])
print("ready", flush=True)
while os.get_terminal_size() != (60, 20):
    signal.sigwait([signal.SIGWINCH])
print("sized")
"""


def test_a_program_is_told_of_a_new_size_at_once(begin: Callable[..., RunningSession]) -> None:
    program = Attached(begin(sys.executable, "-c", AWAITS_SIZE))

    program.until("ready\r\n")
    program.say(size=(20, 60))
    program.until("sized\r\n")


@pytest.mark.bench
def test_an_echo_comes_within_50_ms(begin: Callable[..., RunningSession]) -> None:
    shell = Attached(begin())
    shell.until("$ ")
    took_s = []

    for letter in "abcdefghijk":
        begun_s = time.monotonic()
        shell.type(letter)
        shell.until(letter)
        took_s.append(time.monotonic() - begun_s)

    assert sorted(took_s)[len(took_s) // 2] < 0.05


def test_control_c_ends_what_runs_and_control_d_the_shell(begin: Callable[..., RunningSession]) -> None:
    session = begin()
    shell = Attached(session)

    shell.type("sh -c 'echo sle\"eps\"; exec sleep 1000'\r")
    shell.until("sleeps\r\n")
    shell.type(b"\x03")
    shell.type("echo sta'tus' $?\r")
    shell.until("status 130\r\n")
    shell.until("$ ")
    shell.type(b"\x04")
    assert shell.until_end() == 0
    assert session.process.wait(PATIENCE_S) == 0


@pytest.mark.parametrize(("last", "status"), [("exit 7", 7), ("kill -9 $$", 137), ("exec sh -c 'exit 3'", 3)])
def test_the_status_of_the_command_is_the_sessions(
    begin: Callable[..., RunningSession], last: str, status: int
) -> None:
    session = begin()
    shell = Attached(session)

    shell.type(f"{last}\r")
    assert shell.until_end() == status
    assert session.process.wait(PATIENCE_S) == status


@pytest.mark.parametrize(("command", "status"), [("no-such-program", 127), ("/etc/passwd", 126)])
def test_a_command_that_cannot_be_run_is_told(
    begin: Callable[..., RunningSession], command: str, status: int
) -> None:
    session = begin(command)
    Attached(session).until_end()  # it waits for the first

    assert session.process.wait(PATIENCE_S) == status
    assert command in session.log.read_text()


def test_python_reads_lines_with_its_own_editing(begin: Callable[..., RunningSession]) -> None:
    session = begin(sys.executable, "-q", "-i", "-c", "import sys; sys.ps1 = '>> '")
    python = Attached(session)

    python.until(">> ")
    python.type("6 * 7\r")
    python.until("42\r\n>> ")
    python.type("input('na' 'me? ')\r")
    python.until("name? ")
    python.type("ann\r")
    python.until("'ann'\r\n")
    python.type("import time; print('be' 'gun'); time.sleep(1000)\r")
    python.until("begun\r\n")
    python.type(b"\x03")
    python.until("KeyboardInterrupt")
    python.type("exit(5)\r")
    assert python.until_end() == 5


FULL_SCREEN = """
import os, signal, sys, termios, tty
tty.setraw(0)
draw = lambda *_: os.write(1, b"\\x1b[?1049h\\x1b[c\\x1b[Hsize %d %d" % termios.tcgetwinsize(0))
signal.signal(signal.SIGWINCH, draw)
draw()
while (key := os.read(0, 1)) != b"q":
    os.write(1, b"key %d;" % key[0])
"""


def test_a_full_screen_program_gets_each_key_and_draws_again_for_who_attaches(
    begin: Callable[..., RunningSession],
) -> None:
    session = begin(sys.executable, "-c", FULL_SCREEN)
    first = Attached(session)
    first.until("size 30 100")
    first.type(b"\x03\x1a\r")
    assert first.until("key 13;") == b"key 3;key 26;key 13;"
    first.close()

    second = Attached(session, "another")
    seen = second.until("key 13;")  # what was shown before
    assert b"\x1b[c" not in seen  # or its terminal would answer the question into the program
    second.until("size 30 100")
    second.type("q")
    assert second.until_end() == 0


def test_who_attaches_sees_the_end_of_what_was_shown(begin: Callable[..., RunningSession]) -> None:
    session = begin()
    first = Attached(session)
    first.run("for i in $(seq 20000); do echo line $i; done")
    first.close()

    second = Attached(session, "another")
    lines = second.until("line 20000\r\n").decode().splitlines()
    assert 1_000 < len(lines) < 8_000  # 64 KiB
    assert all(line.startswith("line ") and line[5:].isdecimal() for line in lines)


def test_the_newest_has_the_terminal_and_the_former_one_is_told(begin: Callable[..., RunningSession]) -> None:
    session = begin()
    first, second = Attached(session), Attached(session, "another")

    first.until_end()
    assert first.is_replaced and first.status is None
    assert second.run("echo still here") == "still here\r\n"


def test_output_goes_on_in_the_background_and_with_no_one_attached(
    begin: Callable[..., RunningSession],
) -> None:
    session = begin()
    first = Attached(session)
    first.type("(sleep 0.3; echo back'ground') &\r")
    first.until("background\r\n")
    first.type("(sleep 0.3; echo al'one') &\r")
    first.until("&\r\n")
    first.close()

    wait_for(lambda: b"alone\r\n" in session.log.read_bytes())
    assert session.process.poll() is None
    Attached(session, "another").until("alone\r\n")


def test_a_line_that_broke_goes_on_where_it_was(begin: Callable[..., RunningSession]) -> None:
    """Nothing is shown twice, and nothing is missing."""
    session = begin()
    first = Attached(session, "me")
    first.run("echo before")
    first.until("$ ")
    first.type("echo $((1 + 1)); sleep 0.3; echo af'ter'\r")
    first.until("2\r\n")
    first.close()
    wait_for(lambda: b"after\r\n" in session.log.read_bytes())

    again = Attached(session, "me", first.shown)
    again.hear()
    assert again.seen == session.log.read_bytes()[first.shown :]
    assert b"before" not in again.seen


def test_a_large_output_is_whole_and_waits_for_who_is_slow(begin: Callable[..., RunningSession]) -> None:
    session = begin()
    shell = Attached(session)
    size = 20 << 20

    shell.type(f"head -c {size} /dev/zero | tr '\\0' a; echo e'nd'\r")
    time.sleep(1.0)  # in which more comes than fits on the way
    assert session.log.stat().st_size < size
    before = shell.shown
    shell.until("end\r\n")
    assert size <= shell.shown - before < size + 1000


def test_one_who_takes_nothing_is_given_up_and_the_session_goes_on(
    begin: Callable[..., RunningSession],
) -> None:
    session = begin("bash", "-c", "head -c 20000000 /dev/zero | tr '\\0' a; echo end; sleep 1000")
    stuck = Attached(session)

    def has_gone_on() -> bool:
        session.pass_time(1.0)
        return session.log.read_bytes().endswith(b"end\r\n")

    wait_for(has_gone_on)
    Attached(session, "another").until("end\r\n")
    stuck.close()


def test_a_large_paste_arrives_whole(begin: Callable[..., RunningSession]) -> None:
    session = begin(sys.executable, "-c", "import os,tty; tty.setraw(0); print('ready'); n = 0\n"
                    "while n < 1_000_000: n += len(os.read(0, 65536))\nprint('got', n)")  # fmt: skip
    shell = Attached(session)
    shell.until("ready")

    for _ in range(100):
        shell.type(b"x" * 10_000)
    shell.until("got 1000000")
    assert shell.until_end() == 0


def test_without_a_terminal_it_has_pipes_and_an_end_of_input(begin: Callable[..., RunningSession]) -> None:
    session = begin("bash", is_terminal=False)
    pipe = Attached(session)

    pipe.type("test -t 0 || echo no terminal; ech")
    pipe.type("o $((6 * 7)); exit 4\n")
    assert pipe.until("42\n") == b"no terminal\n42\n"
    assert pipe.until_end() == 4

    cat = begin("wc", "-c", is_terminal=False)
    pipe = Attached(cat)
    pipe.type(b"\x04\x00\xff" * 1000)
    pipe.say(is_end=True)
    pipe.until("3000\n")
    assert pipe.until_end() == 0


def test_the_lines_secrets_are_not_the_commands(begin: Callable[..., RunningSession]) -> None:
    shell = Attached(begin())

    names = {line.partition("=")[0] for line in shell.run("env").splitlines()}
    assert {name for name in names if name.startswith("SWELL_")} == {environ.DEVICES}


def test_a_wrong_token_shows_nothing(begin: Callable[..., RunningSession]) -> None:
    session = begin()
    session.address["token"] = "guessed"
    stranger = Attached(session)

    assert stranger.until_end() is None and stranger.seen == b""


@pytest.mark.parametrize(
    "text",
    [
        b"[1]",
        b"5",
        b"null",
        b'{"content": 5}',
        b'{"token": "\xc3\xa9"}',
        b'{"token": "\\ud800"}',
        b"[" * 100_000,
    ],
)
def test_a_line_of_a_stranger_that_means_nothing_closes_it_without_a_trace(
    begin: Callable[..., RunningSession], text: bytes
) -> None:
    session = begin()
    with socket.create_connection((session.address["host"], session.address["port"]), PATIENCE_S) as stranger:
        stranger.sendall(text + b"\n")
        assert stranger.recv(1) == b""
    shell = Attached(session)
    shell.run("true")

    assert "Traceback" not in session.log.read_text()


def test_while_it_is_ending_it_shows_that_it_is_there(
    begin: Callable[..., RunningSession], tmp_path: Path
) -> None:
    stays = (
        f"trap 'echo told' TERM; trap '' HUP; echo begun; until [ -e {tmp_path}/over ]; do sleep 0.1; done"
    )
    session = begin("sh", "-c", stays, grace_s=600.0)
    shell = Attached(session)
    shell.until("begun\r\n")

    session.process.terminate()
    shell.until("told\r\n")
    for _ in range(3):
        shell.await_looks()
    (tmp_path / "over").touch()
    assert shell.until_end() == environ.EXIT_STOPPED


def test_what_has_left_its_environment_ends_with_it(begin: Callable[..., RunningSession]) -> None:
    session = begin()
    shell = Attached(session)
    started = shell.run("env -i sh -c 'setsid sleep 600 & echo $!'")
    pids = {int(word) for word in started.split() if word.isdecimal()}

    shell.type("exit\r")
    assert shell.until_end() == 0 and session.process.wait(PATIENCE_S) == 0
    assert len(pids) == 1 and not any(map(is_alive, pids))


def test_an_idle_session_ends_and_tells_so_before(begin: Callable[..., RunningSession]) -> None:
    session = begin(idle_s=600.0)
    shell = Attached(session)
    shell.run("echo last use")
    shell.await_looks()
    assert b"ends in" not in shell.seen

    session.pass_time(560.0)
    shell.until("the session ends in")
    session.pass_time(60.0)
    shell.until("was idle for 10 min")
    assert shell.until_end() == session.process.wait(PATIENCE_S) == environ.EXIT_IDLE


@pytest.mark.parametrize("use", ["input", "output", "devices"])
def test_a_session_in_use_is_not_idle(begin: Callable[..., RunningSession], tmp_path: Path, use: str) -> None:
    session = begin(idle_s=600.0)
    shell = Attached(session)
    shell.run("stty -echo")
    shell.type({"output": f"while :; do cat {tmp_path}/pipe; done\r"}.get(use, "cat > /dev/null\r"))
    os.mkfifo(tmp_path / "pipe")

    for _ in range(3):
        shell.await_looks()
        session.pass_time(400.0)
        if use == "input":
            shell.type("x")
        elif use == "devices":
            session.line.sendall(msgspec.json.encode(DevicesUsed()) + b"\n")
        else:
            (tmp_path / "pipe").write_text("more")
            shell.until("more")
    shell.await_looks()
    assert session.process.poll() is None


def test_its_end_at_the_limit_is_told_before(begin: Callable[..., RunningSession]) -> None:
    session = begin(time_s=600.0)
    shell = Attached(session)
    shell.run("true")

    session.pass_time(560.0)
    shell.until("the session ends in")
    shell.until("its time is over then")


def test_sigterm_ends_all_that_it_has_started(begin: Callable[..., RunningSession]) -> None:
    """A shell that reads commands, a job of it, one that has left its group, and one that obeys nothing."""
    session = begin(grace_s=1.0)
    shell = Attached(session)
    started = shell.run(
        "sleep 1001 & echo $!; (trap '' TERM HUP; exec sleep 1002) & echo $!; setsid sleep 1003 & echo $!"
    )
    pids = {int(word) for word in started.split() if word.isdecimal()}
    assert len(pids) == 3 and all(os.path.exists(f"/proc/{pid}") for pid in pids)

    session.process.terminate()
    assert shell.until_end() == environ.EXIT_STOPPED
    assert session.process.wait(PATIENCE_S) == environ.EXIT_STOPPED


def test_a_port_that_the_session_serves_is_reached(
    begin: Callable[..., RunningSession], tmp_path: Path
) -> None:
    (tmp_path / "page").write_text("x" * 300_000)
    serve = partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), serve) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        session = begin(port=server.server_address[1])
        for _ in range(2):
            with socket.create_connection((session.address["host"], session.address["port"])) as line:
                line.sendall(line_of(token=session.address["token"], forward=True))
                line.sendall(b"GET /page HTTP/1.0\r\n\r\n")
                line.shutdown(socket.SHUT_WR)
                answer = line.makefile("rb").read()
            assert answer.startswith(b"HTTP/1.0 200") and answer.endswith(b"x" * 300_000)
        server.shutdown()

"""The process of a session without an agent, and one who attaches to it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from tests.eventually import PATIENCE_S

from swell.executors.local.terminal import SILENT_S, line_of, message_of
from swell.wire import environ

#: Its clock is ahead by what a file says.
PROGRAM = """
import sys, time
true_clock, ahead = time.monotonic, sys.argv.pop(1)
time.monotonic = lambda: true_clock() + float(open(ahead).read())
from swell.executors.local.terminal import run
sys.exit(run('', sys.argv[1:]))
"""
SIGN_EVERY_S = SILENT_S + 1.0
BASH = ("bash", "--norc", "--noprofile")


class Attached:
    """One who is attached to a session, with all that was shown to them."""

    def __init__(self, session: RunningSession, name: str = "me", shown: int = 0) -> None:
        self._socket = socket.create_connection((session.address["host"], session.address["port"]))
        self._socket.settimeout(PATIENCE_S)
        self._lines = self._socket.makefile("rb")
        self.session = session
        self.shown, self.seen = shown, b""
        self.num_signs = 0  #: of life, without content
        self.status: int | None = None
        self.is_replaced = False
        self.say(token=session.address["token"], attach=name, shown=shown)
        self.say(size=(30, 100))

    def say(self, **message: Any) -> None:
        self._socket.sendall(line_of(**message))

    def type(self, text: str | bytes) -> None:
        self.say(content=text.encode() if isinstance(text, str) else text)

    def hear(self) -> bool:
        """The next message; False: the line has ended."""
        if not (line := self._lines.readline()):
            return False
        message = message_of(line)
        content = message["content"]
        self.num_signs += not content
        self.shown = message.get("shown", self.shown + len(content))
        self.status = message.get("status", self.status)
        self.is_replaced = self.is_replaced or message.get("is_replaced", False)
        self.seen = (self.seen + content)[-200_000:]
        return True

    def until(self, text: str | bytes) -> bytes:
        """What was shown up to the text, which is forgotten then."""
        wanted = text.encode() if isinstance(text, str) else text
        give_up_s = time.monotonic() + PATIENCE_S
        while wanted not in self.seen:
            assert time.monotonic() < give_up_s and self.hear(), (wanted, self.seen)
        before, _, self.seen = self.seen.partition(wanted)
        return before + wanted

    def await_looks(self) -> None:
        """Until the session has looked at its clock twice from now on, and found no end."""
        for _ in range(2):
            num_before = self.num_signs
            self.session.pass_time(SIGN_EVERY_S)
            while self.num_signs == num_before:
                assert self.hear(), self.seen

    def run(self, command: str) -> str:
        """What a command of a shell prints."""
        self.type(f"echo be'gin'; {command}; echo e'nd'\r")
        self.until("begin\r\n")
        return self.until("end\r\n").decode().removesuffix("end\r\n")

    def until_end(self) -> int | None:
        while self.hear():
            pass
        return self.status

    def close(self) -> None:
        self._socket.close()
        self._lines.close()


class RunningSession:
    """The process of a session, and an agent that has heard of it."""

    def __init__(self, folder: Path, command: tuple[str, ...], is_terminal: bool, **terms: Any) -> None:
        path = folder / "terminal"
        self.agent = socket.create_server(("127.0.0.1", 0))
        order = {
            "address_path": str(path),
            "time_s": 600.0,
            "grace_s": 2.0,
            "idle_s": None,
            "port": 0,
            "is_terminal": is_terminal,
            **terms,
        }
        own = {
            environ.SESSION: json.dumps(order),
            environ.OBSERVER: f"127.0.0.1:{self.agent.getsockname()[1]}",
            environ.TOKEN: "secret of the run",
            environ.WORKER: "0",
            environ.ADDRESS: "127.0.0.1",
            environ.DEVICES: "cpu-0",
            "PS1": "$ ",
            "TERM": "xterm",
        }
        self._ahead_s, self._ahead = 0.0, folder / "ahead"
        self.pass_time(0.0)
        self.log = folder / "log"
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(self._ahead), *command],
            env=os.environ | own,
            stdin=subprocess.DEVNULL,
            stdout=self.log.open("wb"),
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=partial(
                signal.signal, signal.SIGINT, signal.SIG_IGN
            ),  # as a shell's `swell up &` has it
        )
        self.agent.settimeout(PATIENCE_S)
        self.line, _ = self.agent.accept()
        wait_for(path.exists)
        self.address = json.loads(path.read_text())

    def pass_time(self, span_s: float) -> None:
        self._ahead_s += span_s
        draft = self._ahead.with_suffix(".draft")
        draft.write_text(str(self._ahead_s))
        draft.replace(self._ahead)

    def close(self) -> None:
        self.process.terminate()  # it ends what the command has left behind
        self.process.wait(PATIENCE_S)
        self.line.close()
        self.agent.close()


def wait_for(is_so: Callable[[], bool]) -> None:
    give_up_s = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < give_up_s
        time.sleep(0.01)

"""A window of a user: a terminal in which a command of Swell runs."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Mapping

from tests.eventually import PATIENCE_S


class Window:
    """Runs one command; what it shows is read as it comes."""

    def __init__(
        self,
        *words: object,
        environ: Mapping[str, str],
        size: tuple[int, int] = (24, 80),
        program: tuple[str, ...] = ("-P", "-m", "swell.cli.main"),
    ) -> None:
        self.terminal, theirs = pty.openpty()
        termios.tcsetwinsize(self.terminal, size)
        self.before = termios.tcgetattr(self.terminal)
        self.seen, self._num_run = b"", time.monotonic_ns()
        self.process = subprocess.Popen(
            [sys.executable, *program, *map(str, words)],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**environ, "TERM": "xterm"},
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(theirs)

    def type(self, text: str | bytes) -> None:
        os.write(self.terminal, text.encode() if isinstance(text, str) else text)

    def until(self, text: str, within_s: float = PATIENCE_S) -> str:
        """What was shown up to the text, which is forgotten then."""
        give_up_s = time.monotonic() + within_s
        while text.encode() not in self.seen:
            assert time.monotonic() < give_up_s, (text, self.seen[-2000:])
            assert self.read(0.1), (text, self.seen[-2000:])
        before, _, self.seen = self.seen.partition(text.encode())
        return before.decode() + text

    def run(self, command: str) -> str:
        """What a command of a shell prints."""
        self._num_run += 1
        self.type(f"echo be'gin' {self._num_run}; {command}; echo e'nd'\r")
        self.until(f"begin {self._num_run}\r\n")
        return self.until("end\r\n").removesuffix("end\r\n")

    def resize(self, num_rows: int, num_columns: int) -> None:
        termios.tcsetwinsize(self.terminal, (num_rows, num_columns))

    @property
    def is_as_before(self) -> bool:
        """Whether the terminal is as it was when the command began."""
        return bool(termios.tcgetattr(self.terminal) == self.before)

    def wait(self) -> int:
        """The exit status of the command, at its end."""
        give_up_s = time.monotonic() + PATIENCE_S
        while self.process.poll() is None:
            assert time.monotonic() < give_up_s, self.seen[-2000:]
            self.read(0.05)
        while self.read(0.05):
            pass
        return int(self.process.wait())

    def close(self) -> None:
        """As one who closes the window."""
        with contextlib.suppress(OSError):
            os.close(self.terminal)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def answers(self) -> bool:
        """Whether a shell shows its prompt after another Return."""
        self.type("\r")
        return self.read(0.2) and b"$ " in self.seen

    def read(self, within_s: float) -> bool:
        """Whether more may be shown: not all that had the terminal have ended."""
        if select.select([self.terminal], [], [], within_s)[0]:
            try:
                self.seen = (self.seen + os.read(self.terminal, 65536))[-1_000_000:]
            except OSError:
                return False
            return True
        return self.process.poll() is None

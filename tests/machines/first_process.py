"""Process 1 of a PID namespace: all other processes of the namespace end with it."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Self, cast

PYTHON = (sys.executable, "-I", "-S")
#: A start or an end that takes longer has failed.
WITHIN_S = 20.0

_FOLDER = Path(__file__).parent
_CREDENTIALS = struct.Struct("3i")  # pid, user, group


class NamespacesMissing(Exception):
    """This machine does not offer what machines are made of; the text says what is missing."""


def entry(pid: int, kinds: Sequence[str], cwd: str, *words: str | Path) -> list[str]:
    """The command that runs `words` in those namespaces of a process."""
    return [*PYTHON, str(_FOLDER / "entry.py"), str(pid), ",".join(kinds), cwd, *map(str, words)]


@dataclass(frozen=True, slots=True)
class FirstProcess:
    """`pid` is its number here, not in its own namespace, where it is 1."""

    pid: int
    _descriptor: int  #: pidfd: the number may be given to another process once this one has ended
    _launcher: subprocess.Popen[str]

    @classmethod
    def start(cls, launch: Sequence[str], order: dict[str, Any], pass_fds: Sequence[int] = ()) -> Self:
        """`launch`: the command that makes the namespaces. Returns once the order has been carried out.

        Raises:
            NamespacesMissing: it could not be.
        """
        ours, theirs = socket.socketpair()
        with ours:
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            ours.settimeout(WITHIN_S)
            with theirs:
                launcher = subprocess.Popen(
                    [*launch, *PYTHON, str(_FOLDER / "init.py")],
                    pass_fds=(theirs.fileno(), *pass_fds),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    text=True,
                )
                ready = theirs.fileno()
            _tell(launcher, order | {"ready": ready})
            try:
                content, ancillary, _, _ = ours.recvmsg(16, socket.CMSG_SPACE(_CREDENTIALS.size))
            except TimeoutError:
                launcher.kill()
                _end(launcher)
                raise
        if not content:
            raise NamespacesMissing(_end(launcher) or "process 1 has ended")
        pid = _CREDENTIALS.unpack(ancillary[0][2])[0]
        return cls(pid, os.pidfd_open(pid), launcher)

    def signal(self, number: signal.Signals) -> None:
        """No effect if it has ended."""
        try:
            signal.pidfd_send_signal(self._descriptor, number)
        except ProcessLookupError:
            pass

    def kill(self) -> None:
        """Kill the process and all others of its namespace. It ends after the last of them.

        Raises:
            TimeoutError: it has not ended within `WITHIN_S`.
        """
        self.signal(signal.SIGKILL)
        end = select.poll()  # select(2) takes no descriptor above 1023
        end.register(self._descriptor, select.POLLIN)
        if not end.poll(WITHIN_S * 1000):
            raise TimeoutError(f"process {self.pid} was killed and has not ended within {WITHIN_S:g} s")

    def release(self) -> None:
        """Once it has been killed, or the namespace around it."""
        _end(self._launcher)
        os.close(self._descriptor)


def _tell(launcher: subprocess.Popen[str], order: dict[str, Any]) -> None:
    stdin = cast(IO[str], launcher.stdin)
    try:
        with stdin:
            json.dump(order, stdin)
    except BrokenPipeError:
        pass  # it has ended, and says why


def _end(launcher: subprocess.Popen[str]) -> str:
    """Wait for it; its complaint."""
    with cast(IO[str], launcher.stderr) as stderr:
        complaint = stderr.read()
    launcher.wait()
    return complaint.strip()

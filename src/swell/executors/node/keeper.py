"""Ends the workers of a host process when its lease is over, though the host process itself stands still.

`python -m swell.executors.node.keeper HOST_PID STATE_DIR`, in a session of its own: what stops a host
(a debugger, Ctrl-Z, `kill -STOP`) does not stop it. It reads times from its standard input, each the end
of the lease by the clock of the machine (`HostClock`); the latest counts, and infinity is none. The host ends
its workers itself if it can.
"""

from __future__ import annotations

import math
import os
import select
import struct
import subprocess
import sys
from pathlib import Path

from swell.executors.local.processes.listing import descendants, kill, list_processes
from swell.executors.local.processes.mark import ProcessMark, read_mark
from swell.wire.unslewed_clocks import HostClock

#: The host ends its workers in this time if it is not stopped. Well within `LeaseTimes.margin_s`.
AHEAD_S = 0.5
#: The machine may have slept meanwhile, of which `select` knows nothing.
LOOK_EVERY_S = 0.5
#: For what was not there to be ended, as long as the host tells of no other end.
LOOK_AGAIN_S = 2.0
#: Between two kills: for one that the kernel cannot end, all of /proc would be read without a pause.
ROUND_S = 0.05
KEEPER_MODULE = "swell.executors.node.keeper"
_END = struct.Struct("d")


class LeaseKeeper:
    """The host's side: starts the process, and another one if it is gone."""

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir.resolve()
        self._process: subprocess.Popen[bytes] | None = None
        self._end_s = math.inf

    def show(self, end_s: float) -> None:
        """Workers may run until then; infinity: none is left.

        Raises:
            OSError: there can be no such process.
        """
        if end_s in (self._end_s, -math.inf):  # the host ends them; if it is stopped, the latest end counts
            return
        self._end_s = end_s
        process = self._process
        if process is None or process.poll() is not None:
            process = self._start()
        try:
            self._tell(process)
        except BrokenPipeError:
            self._tell(self._start())

    def close(self) -> None:
        """Every process of the host is gone."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            self._process.wait()

    def _start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-P", "-m", KEEPER_MODULE, str(os.getpid()), str(self._state_dir)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True
        )
        return self._process

    def _tell(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None  # noqa: S101 - see above
        os.write(process.stdin.fileno(), _END.pack(self._end_s))


class _Shown:
    """The end that the host has told last."""

    def __init__(self, descriptor: int) -> None:
        self.end_s = math.inf
        self.is_closed = False
        self._descriptor = descriptor

    def read(self, wait_s: float) -> None:
        """All that has come by now, or the first that comes."""
        while not self.is_closed and select.select([self._descriptor], [], [], wait_s)[0]:
            wait_s = 0.0
            text = os.read(self._descriptor, _END.size * 512)
            self.is_closed = not text
            if text:  # the pipe takes and gives so few bytes whole
                (self.end_s,) = _END.unpack(text[-_END.size :])


def keep(shown: _Shown, host_pid: int, state_dir: str) -> None:
    """Until the host process is gone. Then the kernel ends its workers; what they have left is ended here."""
    clock = HostClock()
    while not shown.is_closed:
        left_s = shown.end_s + AHEAD_S - clock.now_s()
        shown.read(max(0.0, min(left_s, LOOK_EVERY_S)))
        if not shown.is_closed and clock.now_s() >= shown.end_s + AHEAD_S:
            _end_workers(shown, host_pid, state_dir)
            shown.read(LOOK_AGAIN_S)
    for pid in _workers(host_pid, state_dir):
        kill(pid)


def _end_workers(shown: _Shown, host_pid: int, state_dir: str) -> None:
    """All that are there before the host tells of another end: those of its next term come after that."""
    end_s = shown.end_s
    while pids := _workers(host_pid, state_dir):
        shown.read(0.0)
        if shown.is_closed or shown.end_s != end_s:
            return
        for pid in pids:
            kill(pid)
        shown.read(ROUND_S)


def _workers(host_pid: int, state_dir: str) -> list[int]:
    """Zygotes, workers and what they have started."""

    def is_meant(mark: ProcessMark | None) -> bool:
        return mark is not None and (mark.agent_pid, mark.state_dir) == (host_pid, state_dir)

    processes = [process for process in list_processes() if not process.is_dead]
    marked = [process.pid for process in processes if is_meant(read_mark(process.pid))]
    below = [pid for parent in marked for pid in descendants(parent, processes)]
    return list(dict.fromkeys([*marked, *below]))


if __name__ == "__main__":
    keep(_Shown(sys.stdin.fileno()), int(sys.argv[1]), sys.argv[2])

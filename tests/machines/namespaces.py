"""The machines of `swell_papers.machines`, with what tests and benchmarks do to them."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from functools import cache
from pathlib import Path

from swell_papers.machines import network
from swell_papers.machines.first_process import WITHIN_S, NamespacesMissing, entry
from swell_papers.machines.network import HOME, INTERFACE, STATE, NamespacedMachine

__all__ = ["HOME", "INTERFACE", "STATE", "Machine", "NamespacesMissing", "Network", "why_not"]

#: What has not stopped after so long is let go on for a moment.
AGAIN_S = 1.0


class Machine(NamespacedMachine):
    """A machine that can be cut off from the others and stopped, too."""

    def partition(self) -> None:
        """Cut it off from all others."""
        self._network.configure(self._network.pid, f"link set {self._link} down")

    def heal(self) -> None:
        self._network.configure(self._network.pid, f"link set {self._link} up")

    def freeze(self) -> None:
        """SIGSTOP for each of its processes; returns when all have stopped. The kernel still answers."""
        self._signal_all(signal.SIGSTOP)
        deadline_s = time.monotonic() + WITHIN_S
        again_s = time.monotonic() + AGAIN_S
        while running := [pid for pid in self.pids() if not _is_stopped(pid)]:
            if time.monotonic() > deadline_s:
                raise TimeoutError(
                    f"processes {running} of {self.name} have not stopped within {WITHIN_S:g} s"
                )
            time.sleep(0.002)
            if time.monotonic() > again_s:  # one in vfork is deaf until its child, which has stopped, goes on
                self.thaw()
                time.sleep(0.01)
                self._signal_all(signal.SIGSTOP)
                again_s = time.monotonic() + AGAIN_S

    def thaw(self) -> None:
        self._signal_all(signal.SIGCONT)

    def pids(self) -> list[int]:
        """Process ids of all processes of the machine, in the PID namespace of this process."""
        namespace = Path(f"/proc/{self.pid}/ns/pid").stat().st_ino
        return [pid for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))) if _is_in(pid, namespace)]

    def _signal_all(self, number: signal.Signals) -> None:
        """One call of kill(2), which no fork escapes. It spares process 1, and fails if there is no other."""
        self._running.signal(number)
        text = f"kill -{int(number)} -1 || true"
        words = entry(self.pid, (*self._network.users, "pid"), "/", "sh", "-c", text)
        subprocess.run(words, check=True, stderr=subprocess.DEVNULL)


class Network(network.Network[Machine]):
    """`with Network(3) as network:` starts three machines, and leaves nothing behind."""

    def __init__(self, num_machines: int, *, as_user: bool | None = None, state_bytes: int = 0) -> None:
        super().__init__(Machine, num_machines, as_user=as_user, state_bytes=state_bytes)


@cache
def why_not() -> str:
    """Why machines cannot be had here; empty: they can."""
    try:
        with Network(1):
            return ""
    except NamespacesMissing as error:
        return str(error)


def _is_in(pid: int, namespace: int) -> bool:
    """False if it is gone, or is another user's."""
    try:
        return Path(f"/proc/{pid}/ns/pid").stat().st_ino == namespace
    except OSError:
        return False


def _is_stopped(pid: int) -> bool:
    """Whether a process is stopped with all its threads, or has ended.

    A thread that waits in the kernel (D) counts as stopped: it stops before it leaves the kernel, as does the
    parent in vfork of a child that has stopped.
    """
    try:
        states = [
            file.read_text().rpartition(")")[2].split()[0]
            for file in Path(f"/proc/{pid}/task").glob("*/stat")
        ]
    except OSError:
        return False
    return all(state in "TtDZX" for state in states)

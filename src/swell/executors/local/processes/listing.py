"""The processes of this machine, as /proc lists them."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ProcessEntry:
    """One process at one instant."""

    pid: int
    state: str  #: one letter, see proc(5)
    parent: int
    group: int

    @property
    def is_dead(self) -> bool:
        """It has ended; only its number is still taken."""
        return self.state in "ZX"


def find_process(pid: int) -> ProcessEntry | None:
    """None if there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    state, parent, group = stat.rpartition(")")[2].split()[:3]  # the name before it may hold anything
    return ProcessEntry(pid, state, int(parent), int(group))


def user_of(pid: int) -> int | None:
    """Real user of a process, by number; None: it is gone. The owner of its /proc/PID may be root instead."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return next(int(line.split()[1]) for line in lines if line.startswith("Uid:"))


def list_processes() -> Iterator[ProcessEntry]:
    """All processes in /proc; a process that ends meanwhile may be missing."""
    for name in os.listdir("/proc"):
        if name.isdecimal() and (found := find_process(int(name))) is not None:
            yield found


def is_alive(pid: int) -> bool:
    """Whether the process exists and is not a zombie."""
    found = find_process(pid)
    return found is not None and not found.is_dead


def is_stopped(pid: int) -> bool:
    """Whether a signal (SIGSTOP, SIGTSTP) has stopped it: it cannot say that it lives, however healthy it is.

    A long call into C code that keeps Python's lock is as silent, and is not to be taken for that. A process
    stopped by a debugger is that debugger's affair.
    """
    found = find_process(pid)
    return found is not None and found.state == "T"


def kill(pid: int) -> None:
    """SIGKILL; no effect on one that is gone, or that is another user's."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def started_by(pids: Iterable[int]) -> list[int]:
    """Live children of these processes, their children, and so on, as long as no other adopts them.

    psutil looks at every process of the machine for that.
    """
    found = list(pids)
    num_begun = len(found)
    for pid in found:  # to which their children are added
        with contextlib.suppress(OSError):  # the process is gone
            for thread in os.listdir(f"/proc/{pid}/task"):  # the kernel lists them by who has started them
                with contextlib.suppress(OSError):
                    found += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text().split())
    return found[num_begun:]

"""The log that both sides write: one line at the end of each step of each worker."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from swell.wire.environ import AGENT, MASTER_ADDR, PROCESSES, RESTART_COUNT

#: A process that is killed while it writes leaves a line without an end; it does not count.
_NUM_FIELDS = 6


@dataclass(frozen=True, slots=True)
class Line:
    """One worker has finished one step."""

    end_s: float  #: of the clock of the log, the same in all processes
    step: int
    num_workers: int
    rank: int
    group: str  #: where this group met, and which one of the run it is: the kernel gives a port out again
    pid: int


def this_group() -> str | None:
    """The address that both sides name in the environment, and Swell's number of the group; None: no group.

    Each of torchrun's agents counts restarts since it began itself, so members have other numbers there.
    """
    if PROCESSES in os.environ:  # which form a group that stays
        number = os.environ.get(RESTART_COUNT)
        return None if number is None else f"worker/{number}"
    if (address := os.environ.get(MASTER_ADDR)) is None:
        return None
    number = os.environ.get(RESTART_COUNT, "0") if AGENT in os.environ else "0"
    return f"{address}:{os.environ['MASTER_PORT']}/{number}"


class StepLog:
    """Written by a training script."""

    def __init__(self, folder: Path, now_s: Callable[[], float] = time.monotonic) -> None:
        """`now_s`: of several machines `time.time`, for each has a monotonic clock of its own."""
        self._file = (folder / f"steps-{socket.gethostname()}-{os.getpid()}.log").open("a", buffering=1)
        self._now_s = now_s

    def note(self, step: int, num_workers: int, rank: int) -> None:
        """A step has ended just now. `step` counts finished steps. One that proves a new worker is none."""
        end_s = self._now_s()
        if (group := this_group()) is not None:
            self._file.write(f"{end_s:.6f} {step} {num_workers} {rank} {group} {os.getpid()}\n")


def read_lines(folder: Path) -> list[Line]:
    """All that the workers of one run have written so far, by time."""
    lines: list[Line] = []
    for path in folder.glob("steps-*.log"):
        for text in path.read_text().splitlines(keepends=True):
            fields = text.split()
            if text.endswith("\n") and len(fields) == _NUM_FIELDS:
                end_s, step, num_workers, rank, group, pid = fields
                lines.append(Line(float(end_s), int(step), int(num_workers), int(rank), group, int(pid)))
    return sorted(lines, key=lambda line: line.end_s)

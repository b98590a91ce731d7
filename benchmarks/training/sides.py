"""What the two sides offer to the benchmark: a run that can be started, resized, struck and ended."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from benchmarks.training.pauses import Stretch, stretches
from benchmarks.training.steplog import Line, read_lines

POLL_S = 0.1
ROOT = Path(__file__).parents[2]
#: What the caller has named comes last. Taken once: a side puts it into the environment.
PATHS = os.pathsep.join(filter(None, [f"{ROOT / 'src'}:{ROOT}", os.environ.get("PYTHONPATH")]))
TRAIN = Path(__file__).with_name("train.py")


class SideFailed(RuntimeError):
    """A run did not do what it was told; the text says where its logs are."""


@dataclass(frozen=True)
class Case:
    """What is trained."""

    size: str
    optimizer: str

    def args(self, folder: Path) -> tuple[str, ...]:
        """Of the training script, whose files go to `folder`."""
        return (
            *("--size", self.size, "--optimizer", self.optimizer),
            *("--folder", str(folder), "--checkpoint", str(folder / "checkpoint.pt")),
        )

    @property
    def label(self) -> str:
        return f"{self.size}-{self.optimizer}"


@dataclass(frozen=True)
class LogFolder:
    """Where the workers of one machine write."""

    path: Path
    ahead_s: float = 0.0  #: of its monotonic clock


class Run(Protocol):
    """One that writes a step log."""

    name: str
    folder: Path

    log_folders: Sequence[LogFolder]

    def check(self) -> None:
        """Raises SideFailed if the run is over."""


class Side(Run, Protocol):
    """One run of the training script, in a folder of its own."""

    def start(self, num_workers: int) -> None:
        """Begin to train."""

    def resize(self, num_workers: int) -> None:
        """Say that it shall have so many workers, and return at once."""

    def settle(self, num_workers: int) -> None:
        """After a worker was killed: see that there are `num_workers` again."""

    def close(self) -> None:
        """End all processes."""


def environ() -> dict[str, str]:
    """For every process of both sides."""
    return os.environ | {
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": PATHS,
        "GLOO_SOCKET_IFNAME": "lo",
    }


def lines_of(side: Run) -> list[Line]:
    """All that its workers have written so far, by the time of this machine."""
    lines = [
        replace(line, end_s=line.end_s - folder.ahead_s)
        for folder in side.log_folders
        for line in read_lines(folder.path)
    ]
    return sorted(lines, key=lambda line: line.end_s)


def wait_for_group(
    side: Run, num_before: int, num_workers: int | None, num_steps: int, limit_s: float
) -> list[Stretch]:
    """Wait until a group that came after `num_before` others has finished `num_steps` steps.

    Args:
        num_workers: how many it must have; None if any number will do.

    Raises:
        SideFailed: `limit_s` seconds are over, or the run is.
    """
    deadline_s = time.monotonic() + limit_s
    while True:
        history = stretches(lines_of(side))
        if len(history) > num_before:
            newest = history[-1]
            if num_workers in (None, newest.num_workers) and newest.num_whole >= num_steps:
                return history
        side.check()
        if time.monotonic() > deadline_s:
            raise SideFailed(
                f"{side.name}: no group of {num_workers or 'any'} workers after {limit_s:g} s; "
                f"its logs are in {side.folder}"
            )
        time.sleep(POLL_S)


def kill_worker(side: Side, rank: int) -> float:
    """Kill the worker that has this rank with SIGKILL; returns when that was."""
    pid = next(line.pid for line in reversed(lines_of(side)) if line.rank == rank)
    killed_s = time.monotonic()
    os.kill(pid, signal.SIGKILL)
    return killed_s

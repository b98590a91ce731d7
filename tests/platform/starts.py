"""How long it takes until a job trains on a node that has come, however nodes come.

`ROUNDS=3 pytest -m soak -s tests/slurm/test_slurm_starts.py tests/ray/test_ray_starts.py`, on an idle
machine, prints the times.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from tests.eventually import eventually
from tests.platform.program import ENDLESS, Program, read_diary

from swell.api.client import connect

ROUNDS = int(os.environ.get("ROUNDS", "3"))
#: Of the host that is there first, and of the one that comes.
NUM_DEVICES = 2
PACE = 640
#: Hosts import torch on two busy cores.
WITHIN_S = 180.0


class StartTimes:
    """Times from a node that is there, by what is reached, of one way to bring it."""

    def __init__(self, way: str) -> None:
        self._way = way
        self._found: dict[str, list[float]] = {"offered": [], "first step": []}

    def take(self, program: Program, folder: Path, bring: Callable[[], object] = lambda: None) -> None:
        """Until its devices are offered, and until the first step with them. It is there after `bring`."""
        first = len(read_diary(folder))
        bring()
        begun_s = time.monotonic()
        eventually(lambda: len(hosts(program)) == 2, "a second host", WITHIN_S)
        self._found["offered"].append(time.monotonic() - begun_s)
        await_size(folder, 2 * NUM_DEVICES, first)
        self._found["first step"].append(time.monotonic() - begun_s)

    def tell(self) -> None:
        for name, times_s in self._found.items():
            told = ", ".join(f"{time_s:.1f}" for time_s in times_s)
            print(f"{self._way}, {name}: median {statistics.median(times_s):.1f} s of {told}")


def begin(program: Program, folder: Path) -> str:
    """A job that could use all devices, and trains in `folder` until it is told to end."""
    folder.mkdir()
    words = ("--workers", f"1:{2 * NUM_DEVICES}", "--epochs", ENDLESS, "--code", "live", "--no-wait")
    return program.submit(folder, *words)


def await_size(folder: Path, size: int, first: int) -> None:
    """A step with so many workers, at this place of the diary or later."""
    eventually(
        lambda: any(entry.num_workers == size for entry in read_diary(folder)[first:]),
        f"a step with {size} workers",
        WITHIN_S,
    )


def await_leave(program: Program, folder: Path) -> None:
    """The job trains on the first host alone, as that is all there is."""
    eventually(lambda: len(hosts(program)) == 1, "the end of the second host", WITHIN_S)
    await_size(folder, NUM_DEVICES, len(read_diary(folder)))


def hosts(program: Program) -> list[str]:
    """Without the start of a program, which would take time from what is measured."""
    with connect(program.state) as client:
        return [node.name for node in client.cluster().nodes]

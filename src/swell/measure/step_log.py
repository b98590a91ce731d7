"""The log of a measured job: one line at the end of each step of each worker."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple


class LoggedStep(NamedTuple):
    """One worker has finished one step."""

    end_s: float  #: of CLOCK_MONOTONIC, which all processes of a machine share
    step: int
    num_workers: int


class StepLog:
    """Written by a worker."""

    def __init__(self, folder: Path) -> None:
        self._file = (folder / f"steps-{os.getpid()}.log").open("a", buffering=1)

    def note(self, step: int, num_workers: int) -> None:
        """A step has ended just now. `step` counts finished steps."""
        self._file.write(f"{time.monotonic():.6f} {step} {num_workers}\n")


def read_steps(folder: Path) -> list[LoggedStep]:
    """All that the workers have written so far, by time.

    A line without an end is of a worker that was killed, and does not count.
    """
    steps = list[LoggedStep]()
    for path in folder.glob("steps-*.log"):
        for line in path.read_text().splitlines(keepends=True):
            if line.endswith("\n"):
                end_s, step, num_workers = line.split()
                steps.append(LoggedStep(float(end_s), int(step), int(num_workers)))
    return sorted(steps)


def steady_step_s(steps: Sequence[LoggedStep]) -> float:
    """Median time of a step of a group, which its last worker ends. Raises ValueError: there is only one."""
    ends_s = dict[int, float]()
    for one in steps:
        ends_s[one.step] = max(one.end_s, ends_s.get(one.step, 0.0))
    times = [after_s - before_s for (_, before_s), (_, after_s) in pairwise(sorted(ends_s.items()))]
    if not times:
        raise ValueError("a steady step takes two")
    return statistics.median(times)


def pause_s(steps: Sequence[LoggedStep], before: int, after: int, changed_s: float) -> float:
    """Time that a change took from training.

    It lies between the end of the last step with `before` workers and the end of the first one with `after`,
    less a steady step.

    Args:
        changed_s: when it was ordered: steps with `after` workers are later.

    Raises:
        ValueError: there are no such steps.
    """
    new = [one for one in steps if one.num_workers == after and one.end_s > changed_s]
    old = [one for one in steps if one.num_workers == before and (not new or one.step < new[0].step)]
    if not old or not new:
        raise ValueError(f"there are no steps with {before} workers, or none with {after}")
    first = min(one.step for one in new)
    begun_s = max(one.end_s for one in old)
    return max(one.end_s for one in new if one.step == first) - begun_s - steady_step_s(new)


def await_steps(
    folder: Path, is_enough: Callable[[list[LoggedStep]], bool], check: Callable[[], None], within_s: float
) -> list[LoggedStep]:
    """The steps since a moment, as soon as they are enough.

    Args:
        check: raises if there will be no more.

    Raises:
        TimeoutError: they are not within this time.
    """
    give_up_s = time.monotonic() + within_s
    while not is_enough(steps := read_steps(folder)):
        check()
        if time.monotonic() > give_up_s:
            raise TimeoutError(f"the measured job made no steps as it was to within {within_s:g} s")
        time.sleep(LOOK_S)
    return steps


#: Between two looks at the log.
LOOK_S = 0.02

"""A part of a trial run in which several workers make steps together, and what their all-reduces take."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Generator
from functools import partial
from typing import TypeVar

import torch

from swell.train.collective.group import Group, GroupBroken, check_no_group
from swell.train.collective.next_group import FormFailed
from swell.train.collective.positions import ALONE, Positions
from swell.train.link.agent_link import Link, Superseded, exit_now, open_link
from swell.train.runtime.host import Host, Task
from swell.train.runtime.step_comparison import ShareOf
from swell.train.runtime.trial_run import NUM_WARM_UPS, Profiling
from swell.wire import environ, messages

T = TypeVar("T")
#: Sums that are timed.
NUM_TIMED = 5


class GroupProfiling(Profiling):
    """One of several workers that make `Welcome.group_steps` steps together and tell how long these took.

    Each has as many samples as the fullest worker of a gang. All make the same number of steps, so that none
    waits for another one at the end.

    References: ElasticFlow, section 5, "Throughput profiling": a pre-run with different numbers of devices.
    """

    is_amid_epoch = False  #: it makes as many steps as it is asked for, whatever an epoch has

    def enter(self, task: Task) -> Host:
        check_no_group(self.positions)
        self._tell_ready(task)
        in_group(self._link, self._group, lambda: None, self.positions)
        return self

    def _trial(self) -> Generator[ShareOf | None, None, None]:
        share_of = partial(self._share_of_size, next(iter(self._sizes), self._least_size))
        for _ in range(NUM_WARM_UPS + self.welcome.group_steps):
            yield share_of
            self._time_step()
        if self.rank == 0:
            self._link.send(messages.GroupStepped(step_s=statistics.median(self._timed[NUM_WARM_UPS:])))
        exit_now(0)

    def finish(self, is_early: bool) -> None:
        """The script left its loop before all steps were made: nothing is told."""
        exit_now(environ.EXIT_STOPPED)


def main() -> None:
    """Join a group like any worker, measure, tell (rank 0), and return."""
    link = open_link()
    group = Group(torch.device(link.welcome.device), link)
    link.send(messages.Ready())
    sizes = messages.CALIBRATED_BYTES
    seconds = in_group(link, group, lambda: {size: _allreduce_s(group, size) for size in sizes})
    if group.rank == 0:
        link.send(messages.Calibrated(allreduce_s=seconds))
    group.close()


def in_group(link: Link, group: Group, do: Callable[[], T], positions: Positions = ALONE) -> T:
    """Join the group of the next order and do something in it, again and again until both has succeeded.

    Args:
        do: may raise GroupBroken.
    """
    while True:
        order = positions.take_order(link)
        assert not isinstance(order, messages.Prove)  # noqa: S101 - only one that trains is to prove itself
        if isinstance(order, messages.Suspend) or order.rank is None:
            link.send(messages.Left(generation=order.generation))
            exit_now(environ.EXIT_STOPPED)
        try:
            group.together(partial(group.form, order))
            link.send(messages.Joined(generation=order.generation, steps=0))
            return do()
        except (Superseded, FormFailed):
            continue
        except GroupBroken as broken:
            link.send(messages.Broken(generation=order.generation, steps=0, message=str(broken)))


def _allreduce_s(group: Group, num_bytes: int) -> float:
    """Median of a few, after one that is not timed; the same number on all workers, in step."""
    tensor = torch.zeros(max(1, num_bytes // 4), device=group.device)
    timed = [_sum_s(group, tensor) for _ in range(1 + NUM_TIMED)]
    return statistics.median(timed[1:])


def _sum_s(group: Group, tensor: torch.Tensor) -> float:
    begun_s = time.perf_counter()
    group.sum_all(tensor)
    if tensor.is_cuda:
        torch.cuda.synchronize(tensor.device)
    return time.perf_counter() - begun_s

"""Seconds of an all-reduce by bytes: run as a job's entry, `swell.train.runtime.calibrate:main`."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import TypeVar

import torch

from swell.train.collective.group import Group, GroupBroken
from swell.train.collective.next_group import FormFailed
from swell.train.link.agent_link import Link, Superseded, exit_now, open_link
from swell.wire import environ, messages

T = TypeVar("T")

#: Sums that are timed.
NUM_TIMED = 5


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


def in_group(link: Link, group: Group, do: Callable[[], T]) -> T:
    """Join the group of the next order and do something in it, again and again until both has succeeded.

    Args:
        do: may raise GroupBroken.
    """
    while True:
        order = link.take_order()
        if isinstance(order, messages.Suspend) or order.rank is None:
            link.send(messages.Left(generation=order.generation))
            exit_now(environ.EXIT_STOPPED)
        try:
            group.form(order)
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

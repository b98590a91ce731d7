"""Seconds of an all-reduce by bytes: run as a job's entry, `swell.train.runtime.calibrate:main`."""

from __future__ import annotations

import statistics
import time

import torch

from swell.train.collective.group import Group, GroupBroken
from swell.train.collective.next_group import FormFailed
from swell.train.link.agent_link import Link, Superseded, exit_now, open_link
from swell.wire import environ, messages

#: Sums that are timed, and how many of those that are larger than the usual ones: they take long.
NUM_TIMED, NUM_TIMED_LARGE = 5, 3


def main() -> None:
    """Join a group like any worker, measure, tell (rank 0), and return."""
    link = open_link()
    group = Group(torch.device(link.welcome.device), link)
    link.send(messages.Ready())
    generation = 0
    while True:
        try:
            generation = join_group(link, group)
            seconds = {
                num_bytes: _allreduce_s(group, num_bytes) for num_bytes in link.welcome.allreduce_bytes
            }
            break
        except (Superseded, FormFailed):
            continue
        except GroupBroken as broken:
            link.send(messages.Broken(generation=generation, steps=0, message=str(broken)))
    if group.rank == 0:
        link.send(messages.Calibrated(allreduce_s=seconds))
    group.close()


def join_group(link: Link, group: Group) -> int:
    """Be in the group of the next order; returns its generation.

    Raises Superseded, FormFailed, GroupBroken.
    """
    order = link.take_order()
    if isinstance(order, messages.Suspend) or order.rank is None:
        link.send(messages.Left(generation=order.generation))
        exit_now(environ.EXIT_STOPPED)
    group.form(order)
    link.send(messages.Joined(generation=order.generation, steps=0))
    return order.generation


def _allreduce_s(group: Group, num_bytes: int) -> float:
    """Median of a few, after one that is not timed; the same number on all workers, in step."""
    tensor = torch.zeros(max(1, num_bytes // 4), device=group.device)
    num_timed = NUM_TIMED if num_bytes <= max(messages.CALIBRATED_BYTES) else NUM_TIMED_LARGE
    timed = [_sum_s(group, tensor) for _ in range(1 + num_timed)]
    return statistics.median(timed[1:])


def _sum_s(group: Group, tensor: torch.Tensor) -> float:
    begun_s = time.perf_counter()
    group.sum_all(tensor)
    if tensor.is_cuda:
        torch.cuda.synchronize(tensor.device)
    return time.perf_counter() - begun_s

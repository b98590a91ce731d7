"""Sums over workers of several hosts in three levels: within each host, between the hosts, and back.

A ring of w workers on h hosts sends 2 (w - 1) / w of the numbers over a host's link, in 2 (w - 1) messages
one after the other. With one worker of each host it sends 2 (h - 1) / h of them, in 2 (h - 1) messages.

References: Jia et al., "Highly Scalable Deep Learning Training System with Mixed-Precision: Training ImageNet
    in Four Minutes", 2018, arXiv:1807.11205 (hierarchical all-reduce: reduce, all-reduce, broadcast).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import torch
import torch.distributed as dist

from swell.wire import messages

#: Makes a group: by its name, the own rank in it, and the number of members.
MakeGroup = Callable[[str, int, int], dist.ProcessGroup]
#: Begins one level of a sum.
Level = Callable[[torch.Tensor], dist.Work]
_TO_FIRST, _FROM_FIRST = dist.ReduceOptions(), dist.BroadcastOptions()  # rank 0 of a host is their root


class OneSum:
    """A tensor whose sum has begun."""

    def __init__(self, tensor: torch.Tensor, work: dist.Work, finish: Callable[[], None]) -> None:
        self.tensor = tensor
        self.work = work  #: of its present level
        self._finish = finish

    def wait(self) -> None:
        """Until the sum is there. Raises RuntimeError."""
        self._finish()
        self.work.wait()


class HierarchicalSum:
    """The groups of one worker. All workers begin the same sums in the same order, as in a single group.

    Sums begin each level in their order: when another sum begins, those whose level below has ended, and all
    when one is waited for.
    """

    def __init__(self, regroup: messages.Regroup, make: MakeGroup) -> None:
        """Connect to the other members. Raises RuntimeError."""
        local, num_local, host = regroup.local_rank, regroup.local_world_size, regroup.group_rank
        self.groups: list[dist.ProcessGroup] = []
        self._levels: list[Level] = []
        if num_local > 1:
            up = self._add(make(f"up-{host}", local, num_local))
            self._levels.append(lambda tensor: up.reduce([tensor], _TO_FIRST))
        if local == 0:
            across = self._add(make("across", host, regroup.num_hosts))
            self._levels.append(lambda tensor: across.allreduce([tensor]))
        if num_local > 1:  # not `up`: there the workers of a host would begin sums in different orders
            down = self._add(make(f"down-{host}", local, num_local))
            self._levels.append(lambda tensor: down.broadcast([tensor], _FROM_FIRST))
        self._under_way = [deque[OneSum]() for _ in self._levels[1:]]

    def _add(self, group: dist.ProcessGroup) -> dist.ProcessGroup:
        self.groups.append(group)
        return group

    def begin(self, tensor: torch.Tensor) -> OneSum:
        """Begin to sum over the workers, in place. Raises RuntimeError."""
        one = OneSum(tensor, self._levels[0](tensor), lambda: self._advance(waits=True))
        for sums in self._under_way[:1]:
            sums.append(one)
        self._advance()
        return one

    def _advance(self, waits: bool = False) -> None:
        """Begin the next level of sums whose present one has ended; `waits`: of all. Raises RuntimeError."""
        for number, sums in enumerate(self._under_way, start=1):
            while sums and (waits or sums[0].work.is_completed()):
                one = sums.popleft()
                one.work.wait()
                one.work = self._levels[number](one.tensor)
                for above in self._under_way[number : number + 1]:
                    above.append(one)

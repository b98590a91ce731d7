"""The processes of one worker, which its script divides a model among.

They form torch's default group among themselves, as torchrun's do, and what the script does in that is its
own affair. They make each step together: what one of them finds out, all must know before they act on it.
A worker that loses a process leaves whole: its agent ends the others, so nothing here has to break off.
"""

from __future__ import annotations

import os
from datetime import timedelta
from functools import cached_property

import torch
import torch.distributed as dist

from swell.train.collective.process_groups import backend_of
from swell.wire import environ

#: The agent notices processes that hang; a slow one must not be taken for hung.
TIMEOUT = timedelta(seconds=1800)


class Positions:
    """The processes of this worker, by their positions from 0. All call each method together."""

    def __init__(self, device: torch.device) -> None:
        """Form the default group, if there are several processes and the script has formed none."""
        self.own = int(os.environ.get(environ.POSITION, "0"))  #: of this process
        self.num = int(os.environ.get(environ.PROCESSES, "1"))
        self._device = device
        if self.num > 1 and not dist.is_initialized():
            dist.init_process_group(backend_of(device))

    @property
    def is_first(self) -> bool:
        """Whether this process speaks for its worker."""
        return self.own == 0

    @cached_property
    def _talking(self) -> dist.ProcessGroup:
        """A group of its own, so that what the script has begun in others is not waited for."""
        return _new_group()

    @cached_property
    def saving(self) -> dist.ProcessGroup:
        """A group for the thread that writes checkpoints. All ask for it first in the same order."""
        return _new_group()

    def sum(self, numbers: torch.Tensor) -> torch.Tensor:
        """The sum over the processes of a tensor in host memory, in place."""
        if self.num > 1:
            dist.all_reduce(numbers, group=self._talking)
        return numbers

    def all(self, is_so: bool) -> bool:
        """Whether it is so in all processes."""
        return bool(self.sum(torch.tensor(int(is_so))) == self.num)

    def gather_bytes(self, content: bytes) -> list[bytes]:
        """What each process has brought, by position."""
        if self.num == 1:
            return [content]
        sizes = torch.zeros(self.num, dtype=torch.int64)
        sizes[self.own] = len(content)
        room = torch.zeros(self.num, int(self.sum(sizes).max()), dtype=torch.uint8)
        if content:
            room[self.own, : len(content)] = torch.frombuffer(bytearray(content), dtype=torch.uint8)
        self.sum(room)
        return [row[:size].numpy().tobytes() for row, size in zip(room, sizes.tolist(), strict=True)]

    def told(self, content: bytes) -> bytes:
        """What the first process has brought."""
        return self.gather_bytes(content if self.is_first else b"")[0]


def _new_group() -> dist.ProcessGroup:
    group: dist.ProcessGroup = dist.new_group(backend="gloo", timeout=TIMEOUT)
    return group

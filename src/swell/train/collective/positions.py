"""The processes of one worker, which its script divides a model among.

They form torch's default group among themselves, as torchrun's do, and what the script does in that is its
own affair. They make each step together: what one of them finds out, all must know before they act on it.
A worker that loses a process leaves whole: its agent ends the others, so nothing here has to break off.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from functools import cached_property
from typing import Any, TypeVar, cast

import msgspec
import torch
import torch.distributed as dist

from swell.train.collective.pieces import is_shard
from swell.train.collective.process_groups import backend_of
from swell.train.link.agent_link import Link, Request
from swell.wire import environ

T = TypeVar("T")
_taken = msgspec.json.Decoder(tuple[int, Request])
#: The agent notices processes that hang; a slow one must not be taken for hung.
TIMEOUT = timedelta(seconds=1800)
ONE_PROCESS = (
    "the model is divided among processes (a mesh, or DTensors as of fully_shard() or parallelize_module()), "
    "and this worker has one: submit the job with --devices-per-worker K, and run the script by itself with "
    "torchrun --nproc-per-node K"
)
UNDIVIDED = (
    "this worker is {num} processes, and the script divides nothing among them; divide the model, as by "
    "fully_shard() or parallelize_module(), or submit the job with --processes 1 if one process uses all "
    "{num} devices"
)
UNNAMED = (
    "elastic() got a mesh without names; give its dimensions names, as in init_device_mesh('cuda', (2,), "
    "mesh_dim_names=('fsdp',)), and hand on those along which samples are divided: mesh=mesh['fsdp']"
)


class FailedTogether(OSError):
    """What one process could not do, for all of its worker."""


class Positions:
    """The processes of this worker, by their positions from 0. All call each method together."""

    def __init__(self, own: int = 0, num: int = 1, mesh: Any = None) -> None:
        """
        Args:
            own: position of this process.
            num: processes of the worker, which form torch's default group if there are several.
            mesh: the part of the script's DeviceMesh along which samples are divided; None: along none.
        """
        self.own, self.num, self._mesh = own, num, mesh
        #: Parts of the worker's samples, and the one that is this process's.
        self.num_parts, self.part = 1, 0
        for size, place in zip(mesh.shape, mesh.get_coordinate(), strict=True) if mesh is not None else ():
            self.num_parts, self.part = self.num_parts * size, self.part * size + place
        self.num_copies = num // self.num_parts  #: processes that have the same samples
        self.dimensions = () if mesh is None else tuple(range(mesh.ndim))  #: of the mesh

    @property
    def is_first(self) -> bool:
        """Whether this process speaks for its worker."""
        return self.own == 0

    @cached_property
    def group(self) -> dist.ProcessGroup:
        """A group of its own, so that what the script has begun in others is not waited for."""
        return _new_group()

    @cached_property
    def saving(self) -> Positions:
        """The same processes for the thread that writes checkpoints. All ask for it together first."""
        apart = Positions(self.own, self.num)
        if self.num > 1:
            apart.group = _new_group()
        return apart

    def left_to_average(self, parameter: torch.Tensor) -> tuple[int, ...]:
        """Dimensions of the mesh along which the script does not average a parameter's gradients by itself.

        `fully_shard` does along those of its own mesh, whatever their names.
        """
        shard: Any = parameter
        held = {*shard.device_mesh.mesh.flatten().tolist()} if is_shard(parameter) else set()
        groups = (dist.get_process_group_ranks(self._mesh.get_group(at)) for at in self.dimensions)
        return tuple(at for at, ranks in enumerate(groups) if not held.issuperset(ranks))

    def average(self, tensors: Sequence[torch.Tensor], dimensions: Sequence[int]) -> None:
        """Average along dimensions of the mesh, in place."""
        if not tensors or not dimensions:
            return
        flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
        for dimension in dimensions:
            dist.all_reduce(flat, group=self._mesh.get_group(dimension))
            flat /= self._mesh.size(dimension)
        for tensor, part in zip(tensors, flat.split([each.numel() for each in tensors]), strict=True):
            tensor.copy_(part.view_as(tensor))

    @property
    def is_there(self) -> bool:
        """Whether they can still talk: a script may have destroyed its process group at its end."""
        return self.num == 1 or dist.is_initialized()

    def sum(self, numbers: torch.Tensor) -> torch.Tensor:
        """The sum over the processes of a tensor in host memory, in place."""
        if self.num > 1:
            dist.all_reduce(numbers, group=self.group)
        return numbers

    def all(self, is_so: bool) -> bool:
        """Whether it is so in all processes."""
        return bool(self.sum(torch.tensor(int(is_so))) == self.num)

    def gather_bytes(self, content: bytes) -> list[bytes]:
        """What each process has brought, by position."""
        return [content] if self.num == 1 else gather_bytes(content, self.own, self.num, self.sum)

    def first_text(self, text: str) -> str:
        """The first that is not empty of what the processes have brought; empty: all are."""
        return next(filter(None, self.gather_bytes(text.encode())), b"").decode()

    def told(self, content: bytes) -> bytes:
        """What the first process has brought."""
        return self.gather_bytes(content if self.is_first else b"")[0]

    def together(self, act: Callable[[], T], reason: Callable[[Exception], str] = str) -> T:
        """Do something that fails in all processes, or in none.

        Raises:
            FailedTogether: it failed in one of several, for this reason.
        """
        if self.num == 1:
            return act()
        done, failure = cast(T, None), ""
        try:
            done = act()
        except (OSError, RuntimeError, TypeError, MemoryError) as error:
            failure = reason(error) or type(error).__name__
        if failure := self.first_text(failure):
            raise FailedTogether(failure)
        return done

    def first(self, act: Callable[[], str], reason: Callable[[Exception], str] = str) -> str:
        """What the first process comes to. Raises as `together` does."""
        own = self.together(lambda: act() if self.is_first else "", reason)
        return self.told(own.encode()).decode()

    def take_order(self, link: Link) -> Request:
        """The next order to carry out: all take the same one, though a newer one may have come to some."""
        if self.num == 1:
            return link.take_order()[1]
        if not self.is_first:
            link.await_any()  # without the limit of a collective
        taken = msgspec.json.encode(link.take_order()) if self.is_first else b""
        with link.heartbeat.waiting("peers"):
            number, order = _taken.decode(self.told(taken))
        if not self.is_first:
            link.await_order(number)
        return order


#: A worker of one process.
ALONE = Positions()


def positions_of(parameters: Iterable[torch.Tensor], mesh: Any, device: torch.device) -> Positions:
    """Those of this process's worker: what its agent started, or under torchrun all, for a divided model.

    The default group is formed if the script has not.

    Raises:
        ValueError: the processes or the dimensions of the mesh are not such as can be divided along.
    """
    own, num = int(os.environ.get(environ.POSITION, "0")), int(os.environ.get(environ.PROCESSES, "1"))
    is_divided = mesh is not None or any(map(is_shard, parameters))
    if is_divided and environ.AGENT not in os.environ and environ.WORLD_SIZE in os.environ:
        own, num = int(os.environ[environ.RANK]), int(os.environ[environ.WORLD_SIZE])
    if is_divided and num == 1:
        raise ValueError(ONE_PROCESS)
    if mesh is not None and not mesh.mesh_dim_names:
        raise ValueError(UNNAMED)
    if num > 1 and not dist.is_initialized():
        if not is_divided:
            raise ValueError(UNDIVIDED.format(num=num))
        dist.init_process_group(backend_of(device))
    return Positions(own, num, mesh)


def gather_bytes(
    content: bytes, own: int, num: int, sum_all: Callable[[torch.Tensor], object], device: Any = "cpu"
) -> list[bytes]:
    """What each of `num` processes has brought, in their order.

    Args:
        own: place of this process.
        sum_all: sums a tensor on `device` over the processes, in place.
    """
    sizes = torch.zeros(num, dtype=torch.int64, device=device)
    sizes[own] = len(content)
    sum_all(sizes)
    room = torch.zeros(num, int(sizes.max()), dtype=torch.uint8)
    if content:
        room[own, : len(content)] = torch.frombuffer(bytearray(content), dtype=torch.uint8)
    room = room.to(device)
    sum_all(room)
    return [row[:size].numpy().tobytes() for row, size in zip(room.cpu(), sizes.tolist(), strict=True)]


def _new_group() -> dist.ProcessGroup:
    group: dist.ProcessGroup = dist.new_group(backend="gloo", timeout=TIMEOUT)
    return group

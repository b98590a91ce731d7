"""The part of a tree's sum that lies between workers: each finishes the tree for its part of the numbers."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Protocol

import torch
import torch.distributed as dist

from swell.train.collective.tree import Fold, cover
from swell.train.data.sample_schedule import cut


class Members(Protocol):
    """The workers of a group, as `Group` is."""

    @property
    def rank(self) -> int: ...

    @property
    def num_workers(self) -> int: ...

    def sum_all(self, tensor: torch.Tensor) -> None:
        """Sum a tensor over the workers, in place. Raises GroupBroken."""

    def run(self, collective: Callable[[], object]) -> None:
        """Do something that all do together. Raises GroupBroken if that fails."""


class Exchange:
    """Keeps the room for what is received: memory that is new costs more than the sum."""

    def __init__(self) -> None:
        self._rooms: list[torch.Tensor] = []

    def sum_nodes(
        self, members: Members, num_leaves: int, own: list[torch.Tensor], total: torch.Tensor
    ) -> None:
        """Sum what all workers hold, in the tree's order: the same bits on all of them, and for any number.

        Worker r of n has summed leaves `cut(num_leaves, n, r)` up to the nodes that cover them. As many bytes
        travel as in an all-reduce, if each worker's leaves make up one node, as with powers of two.

        Args:
            own: this worker's sums from left to right, each of shape (N,); none if it holds no leaf.
            total: for the result, of shape (N,); it may be one of `own`.

        Raises:
            GroupBroken: a peer is gone.
        """
        workers = range(members.num_workers)
        held = [cover(cut(num_leaves, len(workers), worker), num_leaves) for worker in workers]
        chunks = [cut(len(total), len(workers), worker) for worker in workers]
        received: list[list[torch.Tensor]] = [[] for _ in workers]
        for turn in range(max(map(len, held))):
            senders = [worker for worker in workers if turn < len(held[worker])]
            sent = own[turn] if turn < len(own) else total[:0]
            room = self._room(turn, len(senders) * len(chunks[members.rank]), total)
            _swap(members, sent, room, senders, list(map(len, chunks)))
            for worker, chunk in zip(senders, room.view(len(senders), -1), strict=True):
                received[worker].append(chunk)
        fold = Fold[torch.Tensor](num_leaves, lambda left, right: left.add_(right))
        for node, chunk in zip(chain(*held), chain(*received), strict=True):
            fold.push(node, chunk)
        _part(total, chunks[members.rank]).copy_(fold.total())
        _give_round(members, [_part(total, chunk) for chunk in chunks])

    def _room(self, turn: int, size: int, like: torch.Tensor) -> torch.Tensor:
        if turn == len(self._rooms):
            self._rooms.append(like.new_empty(size))
        if len(self._rooms[turn]) < size:
            self._rooms[turn] = like.new_empty(size)
        return self._rooms[turn][:size]


def _swap(
    members: Members, sent: torch.Tensor, received: torch.Tensor, senders: list[int], sizes: list[int]
) -> None:
    """Each sender gives each worker its chunk."""
    sizes_in = [sizes[members.rank] if worker in senders else 0 for worker in range(members.num_workers)]
    sizes_out = sizes if len(sent) else [0] * members.num_workers
    members.run(lambda: dist.all_to_all_single(received, sent, sizes_in, sizes_out))


def _give_round(members: Members, chunks: list[torch.Tensor]) -> None:
    """Each worker's chunk to all others. Broadcasts at once: gloo's all-gather copies much more."""

    def broadcast_all() -> None:
        handles = [dist.broadcast(chunk, worker, async_op=True) for worker, chunk in enumerate(chunks)]
        for handle in handles:
            if handle is not None:
                handle.wait()

    members.run(broadcast_all)


def _part(tensor: torch.Tensor, places: range) -> torch.Tensor:
    return tensor[places.start : places.stop]

"""The part of a tree's sum that lies between workers: each finishes the tree for its part of the numbers."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Protocol

import torch
import torch.distributed as dist

from swell.train.course import cut
from swell.train.tree import Fold, cover

#: Each gives its part, all get the whole; torch 2.13 gave it another name.
_gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor


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


def chunk_size(num_numbers: int, num_workers: int) -> int:
    """Numbers that a worker finishes; the last ones may have fewer."""
    return -(-num_numbers // num_workers)


def sum_nodes(
    members: Members, num_leaves: int, own: list[torch.Tensor], total: torch.Tensor, num_numbers: int
) -> None:
    """Sum what all workers hold, in the tree's order: the same bits on all of them, and for any number.

    Worker r of n has summed leaves `cut(num_leaves, n, r)` up to the nodes that cover them. As many bytes
    travel as in an all-reduce, if each worker's leaves make up one node, as with powers of two.

    Args:
        own: this worker's sums from left to right, each of shape (num_numbers,); none if it holds no leaf.
        total: for the result, of shape (n * chunk_size(num_numbers, n) or more,).

    Raises:
        GroupBroken: a peer is gone.
    """
    num_workers, rank = members.num_workers, members.rank
    size = chunk_size(num_numbers, num_workers)
    sizes = [max(0, min(size, num_numbers - worker * size)) for worker in range(num_workers)]
    held = [cover(cut(num_leaves, num_workers, worker), num_leaves) for worker in range(num_workers)]
    chunks: list[list[torch.Tensor]] = [[] for _ in held]
    for turn in range(max(map(len, held))):
        senders = [worker for worker, nodes in enumerate(held) if turn < len(nodes)]
        received = total.new_empty(len(senders) * sizes[rank])
        _swap(members, own[turn] if turn < len(own) else total[:0], received, senders, sizes)
        for worker, chunk in zip(senders, received.view(len(senders), -1), strict=True):
            chunks[worker].append(chunk)
    fold = Fold[torch.Tensor](num_leaves, lambda left, right: left.add_(right))
    for node, chunk in zip(chain(*held), chain(*chunks), strict=True):
        fold.push(node, chunk)
    finished = total.new_empty(size)
    finished[: sizes[rank]] = fold.total()
    members.run(lambda: _gather(total[: num_workers * size], finished))


def _swap(
    members: Members, sent: torch.Tensor, received: torch.Tensor, senders: list[int], sizes: list[int]
) -> None:
    """Each sender gives each worker its chunk."""
    own_size = sizes[members.rank]
    sizes_in = [own_size if worker in senders else 0 for worker in range(members.num_workers)]
    sizes_out = sizes if len(sent) else [0] * members.num_workers
    members.run(lambda: dist.all_to_all_single(received, sent, sizes_in, sizes_out))

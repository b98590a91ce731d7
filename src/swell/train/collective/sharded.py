"""Sums of gradients that have the same bits at any number of workers: one tree over the shards of a step.

A sum of floating-point numbers depends on its order. Here leaf 0 is added to leaf 1 and 2 to 3, then the two
sums, and so on; where the number of leaves is no power of two, what has no right sibling goes up as it is.
A rank that holds leaves that lie side by side can sum them up to the fewest nodes of that tree (`cover`), and
a rank that is given such nodes of all of them, in order, can finish it: the result has the same bits.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import chain
from typing import Generic, TypeVar

import torch
import torch.distributed as dist

from swell.train.collective.gradients import Gradients, StepVote
from swell.train.collective.group import Group, await_all
from swell.train.collective.norms import StatisticsError
from swell.train.collective.packing import NUM_SAID, FlatBuffer
from swell.train.data.sample_schedule import Pass, Share, cut

T = TypeVar("T")


def cover(leaves: range, num_leaves: int) -> list[range]:
    """The fewest nodes of a tree of `num_leaves` that make up these leaves, from left to right."""
    fold = Fold[None](num_leaves, lambda left, right: None)
    for leaf in leaves:
        fold.push(range(leaf, leaf + 1), None)
    return [node for node, _ in fold.held]


class Fold(Generic[T]):
    """Sums nodes that come from left to right as far as the tree allows, like a binary counter.

    A node is the range of its leaves. One of each size is held at most: log2 of the number of leaves, plus
    one, where the first node begins with leaf 0, and twice that where it does not.
    """

    def __init__(self, num_leaves: int, add: Callable[[T, T], T]) -> None:
        """`add(left, right)` returns the sum; it may use up both."""
        self._num_leaves = num_leaves
        self._add = add
        self.held: list[tuple[range, T]] = []  #: nodes and their sums

    def push(self, node: range, value: T) -> None:
        """Take what stands to the right of all that is held."""
        while self.held and self._is_node(range(self.held[-1][0].start, node.stop)):
            left, before = self.held.pop()
            node, value = range(left.start, node.stop), self._add(before, value)
        self.held.append((node, value))

    def total(self) -> T:
        """The sum of all leaves; to be asked for once all have come."""
        [(node, value)] = self.held
        if node != range(self._num_leaves):
            raise ValueError(f"the sum of {node} is not the sum of all {self._num_leaves} leaves")
        return value

    def _is_node(self, leaves: range) -> bool:
        width = 1 << (len(leaves) - 1).bit_length()
        return leaves.start % width == 0 and leaves.stop == min(leaves.start + width, self._num_leaves)


class ShardedGradients(Gradients):
    """Each pass is a shard, and a leaf of the tree."""

    _is_checked = False  # no pass changes buffers that are not averaged

    def begin(self, share: Share) -> None:
        super().begin(share)
        self._packing.drop()  # a gradient that is set to zero, not taken away, would be added to: -0.0 + 0.0
        self._fold = Fold[FlatBuffer](share.num_shards, self._merge)
        self._shards = iter(share.shards)

    def overlap(self, part: Pass, group: Group) -> None:
        """The tree is summed once all leaves are there."""

    def _remake(self) -> None:
        super()._remake()
        self._spare: list[FlatBuffer] = []  # memory that is new costs more than the sum

    def _pack(self, part: Pass, loss: torch.Tensor) -> None:
        if not self._is_checked and (name := self._buffers.changed()) is not None:
            raise StatisticsError(
                f"the model's buffer {name!r} changes in each pass, and a worker has as many of these as its "
                "share has shards; deterministic=True averages the buffers of batch norms only: keep this "
                "one as it is in training, or go without deterministic=True"
            )
        self._is_checked = self._is_begun = True
        if part.num_local == 0:
            return  # borrowed: it is no leaf
        flat = self._spare.pop() if self._spare else self._packing.new()
        self._packing.write(flat, part, loss)
        shard = next(self._shards)
        self._fold.push(range(shard, shard + 1), flat)

    def _merge(self, left: FlatBuffer, right: FlatBuffer) -> FlatBuffer:
        left.numbers.add_(right.numbers)
        self._spare.append(right)
        return left

    def _sum(self, share: Share, ballot: StepVote, group: Group) -> FlatBuffer:
        if group.num_workers == 1:
            total = self._fold.total()
            ballot.write(total.said, share)
            return total
        own = [flat for _, flat in self._fold.held]
        total = own[0] if own else self._packing.new()
        sum_nodes(group, share.num_shards, [flat.numbers for flat in own], total.numbers)
        said = torch.zeros(NUM_SAID, device=total.said.device)
        ballot.write(said, share)
        group.sum_all(said)  # also of those that hold no shard
        total.said.copy_(said)
        return total


def sum_nodes(group: Group, num_leaves: int, own: list[torch.Tensor], total: torch.Tensor) -> None:
    """Sum what all workers hold, in the tree's order: the same bits on all of them, and for any number.

    Worker r of n has summed leaves `cut(num_leaves, n, r)` up to the nodes that cover them, and ends the sum
    for an n-th of the numbers. As many bytes travel as in an all-reduce, if each worker's leaves make up one
    node, as with powers of two.

    Args:
        own: this worker's sums from left to right, each of shape (N,); none if it holds no leaf.
        total: for the result, of shape (N,); it may be one of `own`.

    Raises:
        GroupBroken: a peer is gone.
    """
    workers = range(group.num_workers)
    held = [cover(cut(num_leaves, len(workers), worker), num_leaves) for worker in workers]
    nodes = list(chain(*held))
    sizes = [len(cut(len(total), len(workers), worker)) for worker in workers]
    mine = sizes[group.rank]
    parts = zip(*(node.split(sizes) for node in own), strict=True)  # what each worker gets lies together
    sent = own[0] if len(own) == 1 else torch.cat([total[:0], *chain.from_iterable(parts)])
    received = total.new_empty(len(nodes), mine)
    sizes_in, sizes_out = [len(each) * mine for each in held], [len(own) * size for size in sizes]
    group.run(lambda: dist.all_to_all_single(received.view(-1), sent, sizes_in, sizes_out))
    fold = Fold[torch.Tensor](num_leaves, lambda left, right: left.add_(right))
    for node, part in zip(nodes, received, strict=True):
        fold.push(node, part)
    results = total.split(sizes)
    results[group.rank].copy_(fold.total())

    def broadcast_all() -> None:  # at once: gloo's all-gather copies much more
        await_all([dist.broadcast(part, worker, async_op=True) for worker, part in enumerate(results)])

    group.run(broadcast_all)


def compute_alike(device: torch.device) -> None:
    """Make this process compute as any worker does. It changes settings of the whole process.

    On a CPU one thread, as a worker of Swell has: sums that are cut among threads depend on their number.
    """
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when cuBLAS is first used
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False
    if device.type == "cpu":
        torch.set_num_threads(1)

"""Sums of gradients that have the same bits at any number of workers: one tree over the shards of a step."""

from __future__ import annotations

import torch
from torch import nn

from swell.train.collective.exchange import Exchange, Members
from swell.train.collective.gradients import (
    UNFROZEN,
    LoopError,
    StepTotals,
    StepVote,
    check_agreement,
    tally_of,
)
from swell.train.collective.norms import BatchNormStatistics, OtherBuffers
from swell.train.collective.packing import NUM_SAID, FlatBuffer, Packing
from swell.train.collective.tree import Fold, TreeNode
from swell.train.data.sample_schedule import Pass, Share


class ShardedGradients:
    """Each pass is a shard, and a leaf of the tree."""

    def __init__(self, model: nn.Module, parts_interval: int = 0) -> None:
        """`parts_interval`: see `Packing`."""
        self._model, self._parts_interval = model, parts_interval
        self._statistics = BatchNormStatistics(model)
        self._packing = Packing(model, self._statistics, parts_interval)
        self._bystanders: OtherBuffers | None = None  # in the first pass, which shows whether all is well
        self._is_checked = False
        self._buffers: list[FlatBuffer] = []  # those in the fold are not spare
        self._exchange = Exchange()

    @property
    def num_bytes(self) -> int:
        return self._packing.num_bytes

    def begin(self, share: Share) -> None:
        if self._packing.is_stale:
            self._packing = Packing(self._model, self._statistics, self._parts_interval)
            self._buffers = []
        self._statistics.begin()
        if not self._is_checked:
            self._bystanders = OtherBuffers(self._model)
        self._packing.drop()  # a gradient that is set to zero, not taken away, would be added to: -0.0 + 0.0
        self._spare = list(self._buffers)
        self._fold = Fold[FlatBuffer](share.num_shards, self._merge)
        self._shards = iter(share.shards)

    def add(self, part: Pass, loss: torch.Tensor) -> None:
        self._push(part, loss)
        self._packing.drop()
        self._statistics.rewind()

    def reduce(self, share: Share, loss: torch.Tensor, ballot: StepVote, members: Members) -> StepTotals:
        self._push(share.passes[-1], loss)
        if members.num_workers == 1:
            total = self._fold.total()
            ballot.write(total.said, share)
        else:
            total = self._sum_over(members, share)
            said = torch.zeros(NUM_SAID, device=total.said.device)
            ballot.write(said, share)
            members.sum_all(said)  # also of those that hold no shard
            total.said.copy_(said)
        words = self._packing.read(total, share)
        check_agreement(words, share, members)
        return tally_of(words, members.num_workers)

    def abandon(self) -> None:
        self._statistics.rewind()

    def _push(self, part: Pass, loss: torch.Tensor) -> None:
        if self._packing.is_stale:
            raise LoopError(UNFROZEN)
        if self._bystanders is not None:
            self._bystanders.check()
            self._bystanders, self._is_checked = None, True
        if part.num_local == 0:
            return  # borrowed: it is no leaf
        flat = self._take()
        self._packing.write(flat, part, loss)
        self._fold.push(TreeNode(0, next(self._shards)), flat)

    def _merge(self, left: FlatBuffer, right: FlatBuffer) -> FlatBuffer:
        left.numbers.add_(right.numbers)
        self._spare.append(right)
        return left

    def _sum_over(self, members: Members, share: Share) -> FlatBuffer:
        own = self._fold.values
        total = own[0] if own else self._take()
        self._exchange.sum_nodes(members, share.num_shards, [flat.numbers for flat in own], total.numbers)
        return total

    def _take(self) -> FlatBuffer:
        if not self._spare:
            self._spare.append(self._packing.new())
            self._buffers += self._spare
        return self._spare.pop()

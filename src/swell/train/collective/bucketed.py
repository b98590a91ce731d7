"""One step's sum over workers of several hosts: bucket by bucket, some of them during the backward pass."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from swell.train.collective.buckets import BUCKET_BYTES, Bucket, cut_buckets
from swell.train.collective.early import EarlySums
from swell.train.collective.exchange import Members
from swell.train.collective.gradients import (
    UNFROZEN,
    LoopError,
    StepTotals,
    StepVote,
    check_agreement,
    tally_of,
)
from swell.train.collective.norms import BatchNormStatistics
from swell.train.collective.packing import FlatBuffer, Packing
from swell.train.data.sample_schedule import Pass, Share


class BucketedGradients:
    """All workers sum the same buckets in the same order, each of them begins them when it can.

    So the result does not depend on what was begun early, and a worker need not tell that it begins nothing.
    What all say in a step goes last. There a worker says, too, that it has begun a bucket with gradients that
    the script changed afterwards; then all sum once more.
    """

    bucket_bytes = BUCKET_BYTES

    def __init__(self, model: nn.Module, parts_interval: int = 0) -> None:
        """`parts_interval`: see `Packing`."""
        self._statistics = BatchNormStatistics(model)
        self._packing = Packing(model, self._statistics, parts_interval)
        self._buckets = cut_buckets(self._packing.sizes, self.bucket_bytes // self._packing.dtype.itemsize)
        self._early = EarlySums(self._packing, self._buckets)
        self._sums: list[
            FlatBuffer
        ] = []  # two in turn, for the model's gradients may lie in that of the last step
        self._own: FlatBuffer | None = None  # of several passes
        self._is_begun = False  # a pass of this step is in it
        self._is_under_way = False  # sums are, and `run.step` has not waited for them

    @property
    def num_bytes(self) -> int:
        return self._packing.num_bytes

    def begin(self, share: Share, members: Members) -> None:
        self._statistics.begin()
        self._is_begun = False
        self._members = members
        is_first = not self._sums  # in the pause of a change: what is watched needs new memory
        if len(self._sums) < 2:
            self._sums.insert(0, self._packing.new())
        part = share.passes[-1]
        self._early.forget()
        if len(share.passes) == 1 and part.num_local and not is_first:
            self._early.arm(self._sums[0], part.factor, members)

    def add(self, part: Pass, loss: torch.Tensor) -> None:
        self._pack(part, loss)
        self._packing.drop()
        self._statistics.rewind()

    def reduce(self, share: Share, loss: torch.Tensor, ballot: StepVote, members: Members) -> StepTotals:
        if len(share.passes) > 1:
            self._pack(share.passes[-1], loss)
        flat, num_begun, self._is_under_way = self._sums[0], self._early.num_begun, True
        self._begin_sums(flat, share, loss, self._buckets[num_begun:])
        has_changed = self._early.settle(share.passes[-1].factor)  # while the sums are on their way
        ballot.write(flat.said, share)
        tail = torch.cat([flat.rest, flat.rest.new_tensor([float(has_changed)])])
        members.begin_sum(tail)
        norms = self._packing.norms_apart(flat, share.passes[-1].step)
        summed = None if norms is None else norms.clone()  # to sum once more writes there
        if summed is not None:
            members.begin_sum(summed)
        members.end_sums()
        if tail[-1] > 0:
            self._begin_sums(flat, share, loss, self._buckets)
            members.end_sums()
        self._is_under_way = False
        flat.rest.copy_(tail[:-1])
        if norms is not None and summed is not None:
            norms.copy_(summed)
        words = self._packing.read(flat, share)
        self._sums.append(self._sums.pop(0))
        check_agreement(words, share, members)
        return tally_of(words, members.num_workers)

    def abandon(self) -> None:
        self._statistics.rewind()
        if self._early.num_begun:
            self._is_under_way = True
            self._members.forsake()
            self._early.distrust("the script leaves a step after its backward pass")
        self._early.forget()
        if self._is_under_way:
            del self._sums[0]  # something may still be written there
        self._is_under_way = False

    @property
    def is_stale(self) -> bool:
        return self._packing.is_stale

    def follow(self) -> None:
        """Raises LoopError: what is watched in a backward pass cannot change within a step."""
        raise LoopError(UNFROZEN)

    def close(self) -> None:
        """Leave the model alone."""
        self._early.close()

    def _begin_sums(
        self, flat: FlatBuffer, share: Share, loss: torch.Tensor, buckets: Sequence[Bucket]
    ) -> None:
        """Begin the all-reduce of this worker's gradients in these buckets; write the rest of the buffer."""
        part = share.passes[-1]
        if len(share.passes) > 1:
            assert self._own is not None  # noqa: S101 - the passes are in it
            flat.numbers.copy_(self._own.numbers)
        elif part.num_local == 0:  # not `* 0`: a borrowed sample's inf would become nan
            flat.numbers.zero_()
        else:
            self._packing.write_rest(flat, part, loss)
        for bucket in buckets:
            if len(share.passes) == 1 and part.num_local:
                self._packing.write_gradients(flat, bucket.parameters, part.factor)
            self._members.begin_sum(flat.numbers[bucket.numbers])

    def _pack(self, part: Pass, loss: torch.Tensor) -> None:
        if self._own is None:
            self._own = self._packing.new()
        write = self._packing.add if self._is_begun else self._packing.write
        write(self._own, part, loss)
        self._is_begun = True

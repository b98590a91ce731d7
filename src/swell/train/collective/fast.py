"""Sums in the order in which it is fastest: in one piece on one host, in buckets over several."""

from __future__ import annotations

import torch
from torch import nn

from swell.train.collective.bucketed import BucketedGradients
from swell.train.collective.exchange import Members
from swell.train.collective.gradients import FusedGradients, StepTotals, StepVote
from swell.train.collective.norms import StepBuffers
from swell.train.data.sample_schedule import Pass, Share


class FastGradients:
    """One of the two, by where the workers of the step are.

    Within a machine the processor that would compute the backward pass moves the gradients: nothing is gained
    by doing both at once. A GPU sums in one piece: NCCL in the midst of a backward pass was never tried here.
    """

    def __init__(self, model: nn.Module, parts_interval: int = 0) -> None:
        """`parts_interval`: see `Packing`."""
        self._model = model
        self._parts_interval = parts_interval
        self._buffers = StepBuffers(model)
        self._chosen: FusedGradients | BucketedGradients = FusedGradients(model, parts_interval)

    @property
    def num_bytes(self) -> int:
        return self._chosen.num_bytes

    def begin(self, share: Share, members: Members) -> None:
        self._choose(members)
        if self._chosen.is_stale:
            self._remake()
        self._chosen.begin(share, members)
        self._buffers.begin()

    def add(self, part: Pass, loss: torch.Tensor) -> None:
        self._follow()
        self._chosen.add(part, loss)
        self._buffers.rewind()

    def reduce(self, share: Share, loss: torch.Tensor, ballot: StepVote, members: Members) -> StepTotals:
        self._follow()
        return self._chosen.reduce(share, loss, ballot, members)

    def abandon(self) -> None:
        self._chosen.abandon()
        self._buffers.rewind()
        for parameter in self._model.parameters():  # a script may clear them after an update only
            parameter.grad = None

    def _follow(self) -> None:
        """The script may have unfrozen parameters since it got the batch."""
        if self._chosen.is_stale:
            self._chosen.follow()

    def _remake(self) -> None:
        if isinstance(self._chosen, BucketedGradients):
            self._chosen.close()
        self._chosen = type(self._chosen)(self._model, self._parts_interval)

    def _choose(self, members: Members) -> None:
        is_bucketed = members.num_hosts > 1 and next(self._model.parameters()).device.type == "cpu"
        if isinstance(self._chosen, BucketedGradients):
            if not is_bucketed:
                self._chosen.close()
                self._chosen = FusedGradients(self._model, self._parts_interval)
        elif is_bucketed:
            self._chosen = BucketedGradients(self._model, self._parts_interval)

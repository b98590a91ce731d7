"""Sums in the order in which it is fastest: in one piece on one host, in buckets over several."""

from __future__ import annotations

import torch
from torch import nn

from swell.train.collective.bucketed import BucketedGradients
from swell.train.collective.exchange import Members
from swell.train.collective.gradients import FusedGradients, StepTotals, StepVote
from swell.train.data.sample_schedule import Pass, Share


class FastGradients:
    """One of the two, by where the workers of the step are.

    Within a machine the processor that would compute the backward pass moves the gradients: nothing is gained
    by doing both at once. A GPU sums in one piece: NCCL in the midst of a backward pass was never tried here.
    """

    def __init__(self, model: nn.Module, shows_parts: bool = False) -> None:
        """`shows_parts`: sum what `scaling.PartNorms` tells, too."""
        self._model = model
        self._shows_parts = shows_parts
        self._chosen: FusedGradients | BucketedGradients = FusedGradients(model, shows_parts)

    @property
    def num_bytes(self) -> int:
        return self._chosen.num_bytes

    def begin(self, share: Share, members: Members) -> None:
        self._choose(members)
        self._chosen.begin(share, members)

    def add(self, part: Pass, loss: torch.Tensor) -> None:
        self._chosen.add(part, loss)

    def reduce(self, share: Share, loss: torch.Tensor, ballot: StepVote, members: Members) -> StepTotals:
        return self._chosen.reduce(share, loss, ballot, members)

    def abandon(self) -> None:
        self._chosen.abandon()

    def _choose(self, members: Members) -> None:
        is_bucketed = members.num_hosts > 1 and next(self._model.parameters()).device.type == "cpu"
        if isinstance(self._chosen, BucketedGradients):
            if not is_bucketed:
                self._chosen.close()
                self._chosen = FusedGradients(self._model, self._shows_parts)
        elif is_bucketed:
            self._chosen = BucketedGradients(self._model, self._shows_parts)

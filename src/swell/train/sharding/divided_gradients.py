"""Gradients of a model that has divided blocks: those of blocks are summed within the backward pass."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from swell.train.collective.exchange import Members
from swell.train.collective.fast import FastGradients
from swell.train.collective.gradients import FusedGradients, LoopError, StepTotals, StepVote
from swell.train.data.sample_schedule import Pass, Share
from swell.train.sharding.divided_block import DividedBlock
from swell.train.sharding.state_shard import StateShard

WEIGHTED = (
    "run.step(loss, weight=...) and elastic(shard=[...]): a divided block sums its gradients within "
    "loss.backward(), when the weight is not known yet; leave the weight out, or use shard='optimizer'"
)


class DividedGradients(FastGradients):
    """Those of all other parameters are summed in one piece, at the end of the step."""

    def __init__(self, model: nn.Module, shard: StateShard) -> None:
        super().__init__(model)
        self._shard, self._blocks = shard, shard.blocks
        self._has_backward = False  # is under way, and its end will be told
        self._passes: tuple[Pass, ...] = ()
        self._number = 0  # of the pass under way
        for block in self._blocks:
            block.on_backward = self._note_backward

    @property
    def num_bytes(self) -> int:
        """An all-reduce moves each number twice; blocks move theirs three times, in two of these as parts."""
        return super().num_bytes + self._shard.block_bytes() * 3 // 2

    def begin(self, share: Share, members: Members) -> None:
        super().begin(share, members)
        self._passes, self._number, self._has_backward = share.passes, 0, False
        for block in self._blocks:
            block.begin_step()
            block.factor = share.passes[0].factor
        if self._shard.exchange is not None:
            self._shard.exchange.begin_step()

    def add(self, part: Pass, loss: torch.Tensor) -> None:
        self._check(part)
        if self._shard.exchange is None:
            for block in self._blocks:
                block.take()
        super().add(part, loss)
        self._number += 1
        for block in self._blocks:
            block.factor = self._passes[self._number].factor

    def reduce(self, share: Share, loss: torch.Tensor, ballot: StepVote, members: Members) -> StepTotals:
        """The script's clips are carried out, too: afterwards no worker needs another for its update.

        Raises GroupBroken: it may have broken before, within the script's forward or backward pass.
        """
        self._check(share.passes[-1])
        exchange = self._shard.exchange
        if exchange is not None:
            exchange.end_step()
        elif self._number:
            for block in self._blocks:
                block.take()
        fused = self._chosen
        assert isinstance(fused, FusedGradients)  # noqa: S101 - see `_choose`
        fused.has_gradient_apart = self._has_gradient()
        totals = super().reduce(share, loss, ballot, members)
        self._shard.take_gradients()
        for clip in self._shard.clips:
            clip()
        return totals

    def abandon(self) -> None:
        for block in self._blocks:
            block.abandon_backward()
        super().abandon()

    def _choose(self, members: Members) -> None:
        """Sums that begin within the backward pass would come in between those of blocks."""

    def _has_gradient(self) -> bool:
        return any(
            block.gradient is not None or any(each.grad is not None for each in block.parameters)
            for block in self._blocks
        )

    def _check(self, part: Pass) -> None:
        if part.weight != self._passes[self._number].weight:
            raise LoopError(WEIGHTED)

    # ---------------------------------------------------------------- within a backward pass
    def _note_backward(self, block: DividedBlock) -> None:
        if not self._has_backward:
            self._has_backward = True
            engine: Any = torch.autograd.Variable._execution_engine
            engine.queue_callback(self._end_backward)
        for other in self._blocks:
            if other is not block and not other.is_trained:  # nothing else tells that it is done with
                other.release()

    def _end_backward(self) -> None:
        self._has_backward = False
        for block in self._blocks:
            block.reduce()

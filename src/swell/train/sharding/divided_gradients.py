"""Gradients of a model that has divided blocks: those of blocks are summed within the backward pass."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from swell.train.collective.gradients import Gradients, LoopError, StepTotals, StepVote
from swell.train.collective.group import Group
from swell.train.data.sample_schedule import Pass, Share
from swell.train.sharding.away import unasked
from swell.train.sharding.divided_block import DividedBlock
from swell.train.sharding.state_shard import StateShard

WEIGHTED = (
    "run.backward(loss, weight=...), or a collate_fn that leaves samples out, and elastic(shard=[...]): a "
    "divided block sums its gradients within the backward pass, when the weight is not known yet; leave the "
    "weight out, and give each sample a row, or use shard='optimizer'"
)


class DividedGradients(Gradients):
    """Those of all other parameters are summed in one piece, at the end of the step.

    So are those of blocks where this worker has all there is, and there are no others.
    """

    def __init__(self, model: nn.Module, shard: StateShard) -> None:
        super().__init__(model)
        self._shard, self._blocks = shard, shard.blocks
        self._in_blocks = {id(parameter) for block in shard.blocks for parameter in block.parameters}
        self._is_backward = False  # a backward pass is under way, whose end will be told
        self._current: DividedBlock | None = None  # that it came to last
        self._passes: tuple[Pass, ...] = ()
        self._number = 0  # of the pass under way
        for block in self._blocks:
            block.on_backward = self._note_backward

    @property
    def num_bytes(self) -> int:
        """An all-reduce moves each number twice; blocks move theirs three times, in two of these as parts."""
        whole_bytes = 0 if self._apart else self._shard.block_bytes()
        return super().num_bytes - whole_bytes + self._shard.block_bytes() * 3 // 2

    def begin(self, share: Share) -> None:
        exchange = self._shard.exchange
        if bool(self._apart) != (exchange is not None):
            self._apart = self._in_blocks if exchange is not None else ()
            self._remake()
        super().begin(share)
        self._passes, self._number, self._is_backward = share.passes, 0, False
        with unasked():
            for block in self._blocks:
                block.begin_step(share.passes[0].factor)
        if exchange is not None:
            exchange.begin_step()

    def overlap(self, part: Pass, group: Group) -> None:
        """Blocks that are divided sum their gradients within the backward pass, in an order of their own."""
        if not self._apart:
            super().overlap(part, group)

    def add(self, part: Pass, loss: torch.Tensor) -> None:
        self._check(part)
        super().add(part, loss)
        self._number += 1
        for block in self._blocks:
            block.factor = self._passes[self._number].factor

    def reduce(self, share: Share, loss: torch.Tensor, ballot: StepVote, group: Group) -> StepTotals:
        """Raises GroupBroken: it may have broken before, within the script's forward or backward pass."""
        self._check(share.passes[-1])
        if self._shard.exchange is not None:
            self._shard.exchange.end_step()
        self.has_gradient_apart = any(block.gradient is not None for block in self._blocks)
        totals = super().reduce(share, loss, ballot, group)
        if self._shard.exchange is not None:
            self._shard.take_gradients()
        return totals

    def abandon(self) -> None:
        with unasked():
            for block in self._blocks:
                block.abandon_backward()
            super().abandon()

    def _check(self, part: Pass) -> None:
        if self._is_backward:  # it raised, and the script caught that: torch has not told its end
            self._end_backward()
        if part.weight != self._passes[self._number].weight or part.num_dropped:
            raise LoopError(WEIGHTED)
        with unasked():
            for block in self._blocks:
                block.end_pass()

    # ---------------------------------------------------------------- within a backward pass
    def _note_backward(self, block: DividedBlock) -> None:
        if self._is_backward and block is self._current:
            return
        self._current = block
        # One that begins within another, as a reentrant checkpoint's does, ends with it: the outer one may
        # compute another part of the same block afterwards.
        if not self._is_backward:
            self._is_backward = True
            engine: Any = torch.autograd.Variable._execution_engine
            engine.queue_callback(self._end_backward)
        for other in self._blocks:
            if other.is_done and not other.contains(block):
                other.release()

    def _end_backward(self) -> None:
        self._is_backward = False
        with unasked():
            for block in self._blocks:
                block.end_backward()

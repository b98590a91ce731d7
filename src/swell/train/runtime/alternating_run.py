"""A run with several optimizers, which step one after the other in one batch."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import replace
from types import FrameType
from typing import Any, SupportsFloat

import torch

from swell.train.collective.gradients import LoopError, StepTotals
from swell.train.data.loader import Feed
from swell.train.data.random_streams import Purpose
from swell.train.data.sample_schedule import Share
from swell.train.data.stream_loader import StreamFeed
from swell.train.runtime.host import Host, Task
from swell.train.runtime.loader_watch import LoaderWatch
from swell.train.runtime.run import Run, mean_of
from swell.train.state.optimizer_set import OptimizerSet


class AlternatingRun(Run):
    """An elastic training loop with several optimizers::

    run = train.elastic({"g": g, "d": d}, {"g": opt_g, "d": opt_d}, loader, epochs=10)
    for epoch in run.epochs():
        for x in run.batches():
            ...
            run.step(loss_d, optimizer=opt_d)
            ...
            run.step(loss_g, optimizer=opt_g)

    A batch is one step of the job, whatever its number of optimizer steps: it counts when the script asks for
    the next batch, or leaves the loop. Where a worker is lost before that, the others undo what the batch has
    changed, and it comes again. The loss of a batch is that of its first step.
    """

    def __init__(
        self,
        host: Host,
        task: Task,
        feed: Feed | StreamFeed,
        loaders: LoaderWatch,
    ) -> None:
        assert isinstance(task.state.optimizer, OptimizerSet)  # noqa: S101 - made for it
        self._optimizers = task.state.optimizer
        self._undo = task.state.undo
        self._turns: list[StepTotals] = []  # steps of the batch that does not count yet
        self._is_lost = False  # the batch comes again
        super().__init__(host, task, feed, loaders)

    def epochs(self) -> Iterator[int]:
        for epoch in super().epochs():
            yield epoch
            self._close_batch()

    def batches(self) -> Iterator[Any]:
        self._close_batch()  # the script may have left the loop over it
        return super().batches()

    def step(
        self,
        loss: torch.Tensor,
        *,
        weight: SupportsFloat | None = None,
        optimizer: torch.optim.Optimizer | None = None,
    ) -> torch.Tensor:
        """Average the gradients of one optimizer's parameters over all workers and let it step.

        `loss` and `weight` are as those of a run with one optimizer, and so is what is returned.
        """
        if self._out is None:
            raise LoopError("run.step(loss) without a batch; call it in the loop over run.batches()")
        chosen, own_loss = self._optimizers.check(optimizer), mean_of(loss)
        if self._watch.has_made:
            self._watch.check_made()
        self._has_stepped, self._has_trained = False, True
        if self._is_lost or self._is_stopped:
            return own_loss
        (share, part), self._is_weighted = self._out, None
        if weight is not None:
            share = share.weighted(self._weigh(part, weight))
        others = self._take_others(chosen)
        stop = self._is_target_met and not self._turns
        tally = self._host.reduce(replace(share, turn=self._number_of(chosen)), own_loss, stop)
        if tally is None:
            self._lose(sys._getframe(1))
        elif tally.is_stop:  # told in the first step of a batch: nothing of it is applied
            self._is_stopped = True
        elif self._host.stops_on_nan and not math.isfinite(tally.loss):
            self._revert()
            raise self._host.give_up(tally.loss)
        else:
            self._apply(chosen, tally)
            self._task.gradients.begin(self._out[0])
        self._calls.begin_pass()
        for parameter, gradient in others:
            parameter.grad = gradient
        return own_loss if tally is None else tally.loss

    def keep(self, is_end: bool) -> None:
        if self._is_updating:
            return
        if self._share is not None:
            self._revert()
        self._host.keep(is_end)

    def finish(self, stop: SystemExit | None = None) -> None:
        self._close_batch()
        super().finish(stop)

    def _begin_step(self, share: Share, frame: FrameType) -> None:
        if len(share.passes) > 1:
            raise LoopError(
                f"the share of this worker ({share.num_local} samples) does not fit in one pass; with "
                "several optimizers it must, for each is to see what the one before has changed: ask for "
                "more workers, take a smaller batch, or a larger max_local_batch"
            )
        self._is_lost = False
        super()._begin_step(share, frame)
        self._undo.begin_batch()

    def _check_batch(self, batch: Any, frame: FrameType) -> None:
        """Whether there was a step is looked at once the loop over the batch is closed."""

    def _end_step(self, frame: FrameType) -> None:
        if self._is_lost or self._is_stopped:
            self._revert(frame)
        elif not self._turns:
            raise LoopError(
                "a batch went by without run.step(loss, optimizer=...); call it at least once for each batch"
            )
        else:
            self._close_batch()

    def _close_batch(self) -> None:
        """The batch whose steps are applied counts, if there is one."""
        if not self._turns:
            return
        assert self._share is not None  # noqa: S101 - a batch is open
        turns, self._turns, self._is_updating = self._turns, [], True
        self._task.state.is_within_batch = False
        self._task.course.finish_step(self._share)
        self._calls.is_applying = True
        self._task.state.finish_batch(turns[0].loss if turns[0].has_weight else None)
        self._calls.is_applying = False
        self._is_updating, self._share = False, None
        self._seed(Purpose.BETWEEN, self._task.state.updates)
        self._host.finish_step(turns[-1])

    def _apply(self, optimizer: torch.optim.Optimizer, tally: StepTotals) -> None:
        self._undo.keep(optimizer)
        self._is_updating = True
        self._calls.is_out, self._calls.is_applying = False, True
        self._task.state.apply(optimizer, tally.loss if tally.has_weight else None, self._calls.clips)
        self._calls.is_applying = False
        self._is_updating, self._has_stepped = False, True
        self._turns.append(tally)
        self._task.state.is_within_batch = True

    def _revert(self, frame: FrameType | None = None) -> None:
        """Nothing of the batch is left."""
        self._task.gradients.abandon()
        self._calls.is_applying = True
        self._undo.revert(frame)
        self._calls.is_applying = False
        self._turns, self._share = [], None
        self._task.state.forget_batch()

    def _lose(self, frame: FrameType) -> None:
        """The batch comes again: what the script does to the model until it asks for that is undone, too."""
        self._is_lost = True
        for optimizer in self._optimizers:
            self._undo.keep(optimizer)
        self._undo.lose(frame)

    def _number_of(self, optimizer: torch.optim.Optimizer) -> int:
        """A small number that tells the step: workers that sum different ones find it."""
        place = next(place for place, known in enumerate(self._optimizers) if known is optimizer)
        return 1 + place % 16 + 16 * (len(self._turns) % 8) + 128 * (self._task.state.updates % 8)

    def _take_others(self, optimizer: torch.optim.Optimizer) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Take the gradients of all parameters that this optimizer does not hold, to be put back."""
        held = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
        taken: list[tuple[torch.Tensor, torch.Tensor]] = []
        for parameter in self._task.state.model.parameters():
            if parameter.grad is not None and id(parameter) not in held:
                taken.append((parameter, parameter.grad.clone()))  # it may lie in a buffer of the sum
                parameter.grad = None
        return taken

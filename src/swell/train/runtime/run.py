"""What a training script holds: its loop over epochs and batches, and the step."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, SupportsFloat

import torch

from swell.tally import REDUCTIONS, Reduction
from swell.train.collective.gradients import LoopError, StepTotals
from swell.train.data.loader import Feed
from swell.train.data.place import UNBOUNDED
from swell.train.data.random_streams import Purpose, seed_streams
from swell.train.data.sample_schedule import Pass, Share
from swell.train.data.stream_loader import StreamFeed
from swell.train.runtime.host import Host, Task
from swell.train.scaling import PartNorms
from swell.wire.reports import checked_step, number


class Run:
    """An elastic training loop::

    for epoch in run.epochs():
        for x, y in run.batches():
            optimizer.zero_grad()
            loss = loss_of(model(x), y)
            loss.backward()
            run.step(loss)
        run.report(accuracy=evaluate(model))

    A batch that was drawn when a worker was lost comes again. To end early, leave both loops.
    """

    def __init__(
        self,
        host: Host,
        task: Task,
        feed: Feed | StreamFeed,
        clip_grad_norm: float | None,
        stops_on_nan: bool,
    ) -> None:
        self._host = host
        self._task = task
        self._feed = feed
        self._clip_grad_norm = clip_grad_norm
        self._stops_on_nan = stops_on_nan
        self._share: Share | None = None  # of the step under way; outlives the loop, if an error ends that
        self._out: tuple[Share, Pass] | None = None  # the pass that is out, until `step`
        self._has_stepped = False
        self._is_within = False  # the loop over batches
        self._is_updating = False
        self._is_target_met = False  # as this worker sees it
        self._is_stopped = False  # as all agreed
        self._is_finished = False
        task.state.optimizer.register_step_pre_hook(self._check_stepper)
        host.enter(task)
        self._seed(Purpose.BETWEEN, self.updates)

    @property
    def rank(self) -> int:
        return self._host.rank

    @property
    def num_workers(self) -> int:
        return self._host.num_workers

    @property
    def is_leader(self) -> bool:
        """Rank 0: the one that prints, and writes the final model."""
        return self.rank == 0

    @property
    def global_batch(self) -> int:
        """Samples of the coming optimizer step, on all workers together."""
        return self._task.course.batch

    @property
    def own_batch(self) -> int:
        """The job's own batch: what a step is, in all that counts steps."""
        return self._task.course.global_batch

    @property
    def rate_factor(self) -> float:
        """Factor on the learning rates in the coming step; see elastic(rate_rule=...)."""
        state = self._task.state
        return 1.0 if state.rate is None else state.rate.factor_at(self.global_batch)

    @property
    def device(self) -> torch.device:
        return self._host.device

    @property
    def steps(self) -> int:
        """Steps finished since the job began, whatever sizes it went through.

        Of the job's own batch: a step of twice that batch counts as two, and of half of it every second.
        """
        return self._task.state.steps

    @property
    def updates(self) -> int:
        """Optimizer steps finished since the job began, whatever their batch: `steps` if it never changed."""
        return self._task.state.updates

    @property
    def samples(self) -> int:
        """Samples trained on since the job began."""
        return self._task.course.samples

    @property
    def total_steps(self) -> int | None:
        """Steps of the whole run at the own batch.

        None if the run ends with an epoch of a stream that has not said its length.
        """
        return None if self._task.total_steps == UNBOUNDED else self._task.total_steps

    @property
    def epoch(self) -> int:
        return self._task.course.epoch

    @property
    def has_stepped(self) -> bool:
        """Whether the last `run.step` has updated the model.

        It has not where more passes of the step are to come, or where the step will come again because a
        worker was lost. Ask before you do what belongs to a step, such as an average of weights.
        """
        return self._has_stepped

    @property
    def share(self) -> Share | None:
        """What this worker computes in the step under way; None between two steps."""
        return self._share

    def should_stop(self) -> bool:
        """True once the end condition is met."""
        end_epoch = self._task.end_epoch
        is_past = end_epoch is not None and self.epoch >= end_epoch
        return self._is_stopped or self.steps >= self._task.total_steps or is_past

    def epochs(self) -> Iterator[int]:
        """The epochs that are still to do, from the one under way."""
        while not self.should_stop():
            updates, epoch = self.updates, self.epoch
            yield epoch
            if (self.updates, self.epoch) == (updates, epoch) and not self._is_stopped:
                raise LoopError(
                    "an epoch went by without a step; inside `for epoch in run.epochs():` go through "
                    "`for batch in run.batches():` and call run.step(loss) for each batch"
                )
        self.finish()

    def batches(self) -> Iterator[Any]:
        """This worker's part of each batch of the epoch, in one pass or several, on `device` if a GPU."""
        epoch = self.epoch
        while True:
            if not self.should_stop():
                self._host.reach_boundary()  # the group may change here, and with it how far training is
            if self.should_stop() or self.epoch != epoch:
                return
            yield from self._passes()

    def step(self, loss: torch.Tensor) -> torch.Tensor:
        """Average the gradients over all workers and update the model; in place of `optimizer.step()`.

        A worker may get its part of a step's batch in several passes. Then the update comes with the last.

        Args:
            loss: the mean over the samples of this pass, after `loss.backward()`; with a scaler after
                `scaler.scale(loss).backward()`, and itself not scaled.

        Returns:
            The mean over all samples of the step, on all workers, a tensor of shape (). Where nothing was
            updated, `loss` itself without its graph, the mean over this worker's samples of this pass: in a
            pass that is not the step's last, and where a worker was lost; see `has_stepped`.

        Raises:
            LoopError: it was not called once after the backward pass of each batch, or not with a loss.
            LossNotFinite: the loss is no number, and the script or the job says to stop then.
        """
        if self._out is None:
            raise LoopError("run.step(loss) without a batch; call it once for each batch of run.batches()")
        own_loss = _mean(loss)
        (share, part), self._out = self._out, None
        if part is not share.passes[-1]:
            self._task.gradients.add(part, own_loss)
            return own_loss
        tally = self._host.reduce(share, own_loss, self._is_target_met)
        if tally is None:
            return own_loss
        if tally.is_stop:  # the model that met the target stays as it is: this step's update is dropped
            self._is_stopped, self._share = True, None
        elif self._stops_on_nan and not math.isfinite(tally.loss):
            raise self._host.give_up(tally.loss)  # on all workers: they have the same loss
        else:
            self._update(tally)
        return tally.loss

    def report(
        self, /, *, step: int | None = None, reduce: Reduction = "rank0", **metrics: SupportsFloat
    ) -> None:
        """Tell what was measured, as `run.report(accuracy=0.9)`: for the job's listing, its metric target and
        its curves (`swell metrics`). Waits for nothing, so it may be called by any number of workers.

        Once the target is met what was measured then stands: the loop's last round has trained nothing. The
        target looks at rank 0's own value, whatever the reduction. The curve `loss` is that of the training
        loss in each step: a value of this name is listed, and makes no curve.

        Args:
            step: after which step it was measured; None: `run.steps`. A lower one than before is taken for a
                repetition: later points of the curve go.
            reduce: what becomes of the workers' values. `rank0`: rank 0's counts, and no other worker need
                call. `mean`, `sum`, `min`, `max`: of all workers that report the name for the step; one that
                has not by the time the others are two steps further on is left out.
            metrics: numbers, or tensors with one element; may be NaN or infinite. A job has up to 200 names,
                each of up to 100 printable characters.

        Raises:
            TypeError, ValueError: a value is no number, or there is no such step or reduction.
        """
        if self._is_stopped:
            return
        values = {name: number("run.report", name, value) for name, value in metrics.items()}
        if reduce not in REDUCTIONS:
            raise ValueError(f"run.report(reduce={reduce!r:.80}): it is one of {', '.join(REDUCTIONS)}")
        is_met = self._host.report(values, checked_step("run.report", step), reduce)
        self._is_target_met = is_met or self._is_target_met

    def _passes(self) -> Iterator[Any]:
        """The batches of a step that are this worker's; none if the epoch of a stream is over."""
        task, host = self._task, self._host
        opened = self._feed.open(self.updates, host.share, task.course.end_step, host.edition)
        if opened is None:
            task.state.end_epoch()
            return
        (share, batches), gradients = opened, task.gradients
        self._share = share
        gradients.begin(share, host.members)
        self._is_within = True
        try:
            for number, batch in enumerate(batches):
                part = share.passes[number]
                self._out, self._has_stepped = (share, part), False
                self._seed(Purpose.PASS, part.step, part.first)
                yield batch
                if self._out is not None:
                    raise LoopError("a batch went by without run.step(loss); call it once for each batch")
        finally:
            self._out, self._is_within = None, False  # also where the script leaves its loop
            if not self._has_stepped:
                gradients.abandon()

    def _update(self, tally: StepTotals) -> None:
        self._is_updating = True
        assert self._share is not None  # noqa: S101 - a step is under way
        self._task.course.finish_step(self._share)
        parts = PartNorms(tally.part_squared_norm, tally.num_parts, self._share.num_global)
        self._task.state.finish_step(tally.loss, self._clip_grad_norm, parts)
        self._is_updating, self._has_stepped, self._share = False, True, None
        self._seed(Purpose.BETWEEN, self.updates)
        self._host.finish_step(tally)

    def _check_stepper(self, *_: object) -> None:
        """Before any update by the optimizer."""
        if self._is_within and not self._is_updating:
            raise LoopError(
                "the script calls optimizer.step() in its loop over run.batches(); run.step(loss) does that, "
                "with the average of all workers: take the call out"
            )

    def _seed(self, purpose: Purpose, *place: int) -> None:
        seed_streams(self._host.device, self._host.seed, purpose, *place)

    def keep(self, is_end: bool) -> None:
        """This process ends in the middle of a step: save the state before it, if that is still whole.

        `is_end`: of all workers, and not just of this one.
        """
        if self._is_updating:
            return
        if self._is_within and not self._has_stepped:  # something still holds the script's loop
            self._task.gradients.abandon()
        self._host.keep(is_end)

    def finish(self) -> None:
        """Training is over, also for a script that left its loop early. Once; `epochs` does it at its end."""
        if not self._is_finished:
            self._is_finished = True
            self._feed.close()
            self._host.finish()


#: Runs of this process, in order; the runner closes one that the script left early.
started: list[Run] = []


def _mean(loss: torch.Tensor) -> torch.Tensor:
    if not isinstance(loss, torch.Tensor):
        raise LoopError(
            f"run.step() was given a {type(loss).__qualname__}; give it the loss as a tensor, the mean over "
            "the samples of this batch"
        )
    if loss.numel() != 1:
        raise LoopError(
            f"run.step() was given a loss of shape {tuple(loss.shape)}; give it the mean, one number"
        )
    return loss.detach().reshape(())

"""What a training script holds: its loop over epochs and batches, and the step."""

from __future__ import annotations

import gc
import math
import sys
from collections.abc import Iterator
from dataclasses import replace
from types import FrameType
from typing import Any, SupportsFloat

import torch

from swell.tally import REDUCTIONS, Reduction
from swell.train.collective.gradients import MIXED_WEIGHTS, EpochLeft, LoopError, StepTotals
from swell.train.data.loader import Feed
from swell.train.data.place import UNBOUNDED
from swell.train.data.random_streams import Purpose, seed_streams
from swell.train.data.sample_schedule import Pass, Share
from swell.train.link.code_paths import Instruction, is_raised_at, place_of, where_calls_stand
from swell.train.runtime.host import Host, Task
from swell.train.state.model_changes import GIVE_ALL
from swell.train.state.optimizer_set import OptimizerSet
from swell.train.state.script_state import ScriptState
from swell.wire.reports import checked_step, link, number

ACCUMULATED = (
    "the loop adds gradients of several batches up before the optimizer steps; a loop that accumulates over "
    "`accum` batches has them in one step: with a library say so to it (gradient_accumulation_steps=accum, "
    "fabric.epochs(accumulate=accum)), else give the loader batch_size=accum * batch_size and elastic() "
    "max_local_batch=batch_size, do not divide the loss by accum, and call optimizer.zero_grad(), "
    "run.backward(loss) and run.step() for each batch"
)
NO_BACKWARD = (
    "a batch went by without run.backward(loss); call it once for each batch, before the next one is asked "
    "for. Samples are left out where they are read, in the dataset or the collate_fn, or a batch by "
    "run.backward(torch.zeros(()), weight=0), where each other one has run.backward(loss, weight=len(x)). "
    "What reads ahead are the loader's num_workers"
)
#: Times that a script may ask for batches after the last step; a loop over epochs may do so.
MOST_ASKED = 1000
NO_END = (
    "The job's steps are done, and the script asks for batches again and again. A count of the script's own "
    "may have begun again: write `for epoch in run.epochs():` in place of `while`, or leave the loop when "
    "run.should_stop() is true"
)
#: Batches after which a script that never calls `run.step` is taken for one that forgot it.
MOST_SKIPPED = 3
NO_STEP = (
    "run.step() was never called; call it after run.backward(loss) to update the model, in place of "
    "optimizer.step()"
)
SCALED = (
    "run.backward(loss, scaler=...) in a worker of several processes, of which each finds infinities in its "
    "own part alone; train in bfloat16, without a scaler"
)
TWICE = (
    "run.backward(loss) was called twice for one batch; give it the sum of the losses once, or call "
    "`.backward()` on the others before it"
)
AGAIN = (
    "run.backward(loss) goes through a loss's graph a second time; take `loss.backward()` before it out, or "
    "call the first of the two with retain_graph=True"
)


class Run:
    """An elastic training loop::

    for epoch in run.epochs():
        for x, y in run.batches():
            optimizer.zero_grad()
            loss = loss_of(model(x), y)
            run.backward(loss)
            run.step()
        run.report(accuracy=evaluate(model))

    A batch that was drawn when a worker was lost comes again. To end early, leave both loops: a script that
    ends before its job in another way has ended early, and keeps no promise. Each epoch goes through all of
    its batches: a loop over batches that was left, and begins again, is refused.

    Between the two calls the gradients are those of the whole step, on all workers: what the script does with
    them there (clipping, noise, a step that is left out because of their norm) is its own plain code.

    Several optimizers step one after the other in a batch: `run.backward(loss_d)`, `run.step(opt_d)`, then
    `run.backward(loss_g)`, `run.step(opt_g)`. The batch is one step of the job, whatever their number: it
    counts when the script asks for the next batch, or leaves the loop. Where a worker is lost before that,
    the others undo what the batch has changed, and it comes again. The loss of a batch is the first one.
    """

    def __init__(
        self,
        host: Host,
        task: Task,
        feed: Feed,
    ) -> None:
        self._host = host
        self._task = task
        self._feed = feed
        self._share: Share | None = None  # of the step under way; outlives the loop, if an error ends that
        self._out: tuple[Share, Pass] | None = None  # the pass that is out, until `backward`
        self._is_weighted: bool | None = None  # the passes of the step under way; None before the first
        self._has_stepped = False
        self._may_step = False  # `backward` was called since the last step, or since the batch of several
        self._num_skipped = 0  # batches before the first call of `step`; -1 after it
        self._is_scale_checked = False  # that no scaler but a named one scales: once, for it takes a moment
        self._is_skipped = False  # the last batch, for which `step` was not called
        self._is_within = False  # the loop over batches
        self._has_trained = False  # in that loop: a look at a batch is no training
        #: Whose loop over batches has begun, and has not come to its end.
        self._looped_epoch: int | None = None
        self._num_asked = 0  # how often it asked for batches after the last step
        self._is_target_met = False  # as this worker sees it
        self._is_stopped = False  # as all agreed
        self._is_finished = False
        self._goes_through_epochs = False
        self._left_at: list[Instruction] = []  # at which the callers stood when the loop was left
        optimizer = task.state.optimizer
        self._several = optimizer if isinstance(optimizer, OptimizerSet) else None
        #: What was summed in the batch under way, which does not count yet.
        self._turns: list[StepTotals] = []
        self._is_applying = False  # an update, or what undoes one
        # One that wraps another need not have been made as torch makes them.
        hookable = [each for each in task.state.optimizers if hasattr(each, "_optimizer_step_pre_hooks")]
        self._hooks = [each.register_step_pre_hook(self._check_stepper) for each in hookable]
        self._host = host = host.enter(task)
        seed_streams(host.device, host.seed, Purpose.BETWEEN, 0)  # as for data that the script makes now

    @property
    def rank(self) -> int:
        return self._host.rank

    @property
    def num_workers(self) -> int:
        return self._host.num_workers

    @property
    def is_leader(self) -> bool:
        """Rank 0, and its first process: the one that prints, and writes the final model."""
        return self._host.is_leader

    @property
    def global_batch(self) -> int:
        """Samples of the coming optimizer step, on all workers together."""
        return (self._host.shown or self._task.course).batch

    @property
    def own_batch(self) -> int:
        """The job's own batch: what a step is, in all that counts steps."""
        return self._task.own_batch

    @property
    def rate_factor(self) -> float:
        """Factor on the learning rates in the coming step; see elastic(rate_rule=...)."""
        return self._task.state.rate_factor

    @property
    def device(self) -> torch.device:
        return self._host.device

    @property
    def steps(self) -> int:
        """Steps finished since the job began, whatever sizes it went through.

        Of the job's own batch: a step of twice that batch counts as two, and of half of it every second.
        """
        return (self._host.shown or self._task.state).steps

    @property
    def updates(self) -> int:
        """Optimizer steps finished since the job began, whatever their batch: `steps` if it never changed."""
        return (self._host.shown or self._task.state).updates

    @property
    def samples(self) -> int:
        """Samples trained on since the job began."""
        return (self._host.shown or self._task.course).samples

    @property
    def total_steps(self) -> int | None:
        """Steps of the whole run at the own batch.

        None if the run ends with an epoch of a stream that has not said its length. Where that is wrong,
        this is, too.
        """
        return None if self._task.known_steps == UNBOUNDED else self._task.known_steps

    @property
    def progress(self) -> float | None:
        """The part of the run that is done, from 0 to 1, for schedules; None where `total_steps` is."""
        return None if self.total_steps is None else min(1.0, self.steps / self.total_steps)

    @property
    def state(self) -> ScriptState:
        """What the script counts and keeps, saved with the model: `run.state.setdefault("best", 0.0)`.

        Plain values (numbers, strings, None, tensors, containers of these) and objects with `state_dict` and
        `load_state_dict`, or generators of random numbers. Where a step is repeated, or has several
        passes, plain values are again what they were when it began; they are copied for that in each step.
        """
        return self._task.state.objects

    @property
    def epoch(self) -> int:
        return self._task.course.epoch

    @property
    def has_stepped(self) -> bool:
        """Whether the last `run.step` has updated the model.

        It has not where more passes of the step are to come, or where the step will come again because a
        worker was lost. Ask before you do what belongs to a step, such as an average of weights.
        """
        shown = self._host.shown
        return self._has_stepped or (shown is not None and shown.is_tried)

    @property
    def share(self) -> Share | None:
        """What this worker computes in the step under way; None between two steps."""
        return self._share

    def should_stop(self) -> bool:
        """True once the end condition is met."""
        task = self._task
        is_past = task.end_epoch is not None and task.course.epoch >= task.end_epoch
        return self._is_stopped or task.state.steps >= task.course.total_steps or is_past

    def epochs(self) -> Iterator[int]:
        """The epochs that are still to do, from the one under way."""
        self._task.state.begin_epochs(sys._getframe(1))
        if self._task.state.updates:  # as the workers that come to this epoch from the one before it
            self._seed_between()
        self._goes_through_epochs = True
        while not self.should_stop():
            updates, epoch, self._has_trained = self._task.state.updates, self.epoch, False
            try:
                yield epoch
            except GeneratorExit:
                frame = sys._getframe(1)
                self._left_at, self._host.left_at = where_calls_stand(frame), place_of(frame)
                raise
            self._close_batch()
            self._check_left()
            has_moved = (self._task.state.updates, self.epoch) != (updates, epoch)
            if not (has_moved or self._has_trained or self._is_stopped):  # a step that is lost comes again
                raise LoopError(
                    "an epoch went by without a step; inside `for epoch in run.epochs():` go through "
                    "`for batch in run.batches():` and call run.backward(loss) and run.step() for each batch"
                )
        self.finish()

    def batches(self) -> Iterator[Any]:
        """This worker's part of each batch of the epoch, in one pass or several, on `device` if a GPU."""
        self._close_batch()  # the script may have left its loop over it
        epoch = self.epoch
        if self.should_stop():
            self._num_asked += 1
            if self._num_asked > MOST_ASKED:
                raise LoopError(NO_END)
        else:
            self._check_left()
            self._task.state.check_schedulers()
            self._feed.begin_epoch()
            self._looped_epoch = self._task.state.entered_epoch = epoch
            self._has_trained = False
            self._task.state.forms.begin_epoch(sys._getframe(1), self._task.state.objects.held())
        try:
            while not self.should_stop() and self._task.course.place.epoch == epoch:
                self._reach_boundary(sys._getframe(1))
                if self._task.course.place.epoch != epoch:
                    # In others the script has done what follows an epoch, here not yet.
                    self._task.state.undo.catch_up(sys._getframe(1))
                elif self._task.state.steps < self._task.course.total_steps:
                    yield from self._passes()
        except GeneratorExit:  # the script leaves its loop
            self._host.leave_batches(is_over=False)
            raise
        self._looped_epoch = None
        self._task.state.variables.leave_loop()
        self._task.state.forms.leave_epoch()
        if not self.should_stop():
            self._host.leave_batches(is_over=True)

    def _check_left(self) -> None:
        """Raises EpochLeft, if the script goes on though it has left its loop over the epoch's batches."""
        is_left = self._looped_epoch == self.epoch and self._has_trained and not self.should_stop()
        if is_left and self._host.is_amid_epoch:
            raise EpochLeft(
                f"the loop over run.batches() of epoch {self.epoch} was left before its last batch, and "
                "training goes on; all epochs have the same steps, and this one would go on with the batches "
                "that are left. To train on a part of the data in each epoch, give the loader "
                "sampler=RandomSampler(dataset, num_samples=...) with the samples of one epoch, or have a "
                "stream end there; to end training, leave the loop over epochs as well"
            )

    def _reach_boundary(self, frame: FrameType) -> None:
        """No step is under way: the group may change here, and with it how far training is."""
        state = self._task.state
        if state.undo.is_lost:
            state.undo.revert(frame)
        state.variables.reach_boundary(frame)
        self._host.reach_boundary()
        state.leave_boundary()

    def backward(
        self,
        loss: torch.Tensor,
        *,
        weight: SupportsFloat | None = None,
        scaler: torch.amp.GradScaler | None = None,
        **options: Any,
    ) -> torch.Tensor:
        """Compute the gradients and average them over all workers; in place of `loss.backward()`.

        A worker may get its part of a step's batch in several passes. Until the last of them the parameters
        have no gradient after this call.

        Args:
            loss: the mean over the samples of this pass. With `elastic(loss_reduction="sum")` the sum over
                them. One without a graph: the script has put the gradients of its samples there by itself.
            weight: what the loss is a mean over, if that is not samples: the number of tokens or labels of
                this pass that count, or the sum of their class weights. Gradients and losses of all passes
                and workers are averaged with these weights. 0: there is nothing to learn from in this pass,
                whatever its loss. If all weights of a step are 0, nothing is updated; the step counts.
            scaler: scales the loss. `run.step` takes its factor off the gradients, unless the script has
                called `scaler.unscale_(optimizer)`, and updates it.
            options: of `Tensor.backward`, such as `retain_graph`.

        Returns:
            The mean over the whole step, on all workers, a tensor of shape (); 0 if all weights are 0. In a
            pass that is not the step's last, and where a worker was lost, `loss` itself without its graph.

        Raises:
            LoopError: it was not called once for each batch, or not with a loss.
            LossNotFinite: the loss is no number, and the job says to stop then.
        """
        own_loss, out, state = mean_of(loss), self._check_out(), self._task.state
        if self._is_skipped:
            self._check_cleared()
        if self._turns:  # of several optimizers: what is summed now is another loss of the batch
            self._task.gradients.begin(out[0])
        if scaler is not None and scaler.is_enabled():
            if self._host.positions.num > 1:
                raise LoopError(SCALED)
            state.use_scaler(scaler)
            loss = scaler.scale(loss)
        elif not self._is_scale_checked:
            self._is_scale_checked = True
            check_not_scaled(loss)
        share, part, is_last = self._weighed(out, weight)
        notes = self._host.notes
        if is_last and notes is None and not self._is_void:
            self._host.begin_backward(part)
        loss = self._task.gradients.weighted(part, loss, self._several is not None)
        if loss.requires_grad:
            try:
                loss.backward(**options)
            except RuntimeError as error:
                if "second time" in str(error):
                    raise LoopError(AGAIN) from error
                raise
        if notes is not None:
            notes.see_pass(own_loss)
        self._is_weighted = weight is not None
        if self._several is None:
            self._out = None
        self._has_trained, self._has_stepped, self._may_step = True, False, True
        if self._is_void:  # in an earlier one of several sums of this batch
            return own_loss
        if not is_last:
            self._task.gradients.add(part, own_loss)
            return own_loss
        return self._reduce(share, own_loss, sys._getframe(1))

    def _reduce(self, share: Share, own_loss: torch.Tensor, frame: FrameType) -> torch.Tensor:
        """Sum the step over the workers. Returns the loss that the script is told."""
        tally = self._host.reduce(share, own_loss, self._is_target_met and not self._turns)
        if tally is None:
            self._task.state.undo.lose(frame)
            return self._host.loss_told(own_loss)
        if tally.is_stop:  # the model that met the target stays as it is: this step's update is dropped
            self._is_stopped, self._share = True, None
        elif self._host.stops_on_nan and not math.isfinite(tally.loss):
            self._revert()
            raise self._host.give_up(tally.loss)  # on all workers: they have the same loss
        else:
            self._turns.append(tally)
            if tally.has_weight:
                self._task.state.observe(share.num_global)
        return tally.loss

    def step(self, optimizer: torch.optim.Optimizer | None = None) -> None:
        """Update the model by the gradients that are there; in place of `optimizer.step()`.

        It does nothing where they are not those of a whole step: in a pass that is not the step's last, and
        where a worker was lost; see `has_stepped`. A batch for which a script does not call it counts, too.

        Args:
            optimizer: which of several is to step.

        Raises:
            LoopError: there was no `run.backward` before it.
        """
        stepping, self._num_skipped = self._check_step(optimizer), -1
        if self._turns and not self._is_void:
            self._update(stepping)

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
            reduce: what becomes of the workers' values; a worker of several processes has the first one's.
                `rank0`: rank 0's counts, and no other worker need call. `mean`, `sum`, `min`, `max`: of all
                workers that report the name for the step; one that has not by the time the others are two
                steps further on is left out.
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

    def link(self, name: str, url: str) -> None:
        """Show a link of this job on the page and in `swell show`: `run.link("W&B", tracker.url)`.

        Rank 0's counts, and no other worker need call; see `swell.link`.

        Raises:
            ValueError: the name or the address breaks a rule.
        """
        if self.is_leader:
            link(name, url)

    def _passes(self) -> Iterator[Any]:
        """The batches of a step that are this worker's; none if the epoch of a stream is over."""
        task, host = self._task, self._host
        opened = self._feed.open(task.course.place.step, host.share, host.edition)
        if opened is None:
            task.state.end_epoch()
            return
        share, batches = opened
        self._share = share
        if task.is_sum:
            share = share.summed()
        task.gradients.begin(share)
        task.state.undo.begin(sys._getframe(2))
        if self._several is not None:
            self._begin_turns(share)
        self._is_within, self._is_weighted = True, None
        try:
            for number, batch in enumerate(batches):
                if self._feed.num_dropped:
                    share = share.without(number, self._feed.num_dropped)
                part = share.passes[number]
                if number:
                    task.state.objects.rewind()
                    task.state.forget_batch()
                self._out, self._has_stepped, self._may_step = (share, part), False, False
                seed_streams(host.device, host.seed, Purpose.PASS, part.step, part.first)
                if host.notes is not None:
                    host.notes.see_batch(batch)
                yield batch
                if self._out is not None and self._several is None:
                    raise LoopError(NO_BACKWARD)
            self._close_skipped()
        finally:
            self._out, self._is_within = None, False  # also where the script leaves its loop
            if not (self._has_stepped or self._is_skipped):
                task.gradients.abandon()
        if self._is_void:
            self._revert(sys._getframe(2))
        else:
            self._close_batch()

    @property
    def _is_void(self) -> bool:
        """Whether the step under way counts for nothing: a worker was lost, or training ends before it."""
        return self._is_stopped or self._task.state.undo.is_lost

    def _close_skipped(self) -> None:
        """The script wants the next batch. Raises LoopError where it has never updated its model."""
        if not self._turns:
            if self._several is not None and not self._is_void:
                raise LoopError(NO_BACKWARD)
        elif not self._has_stepped and not self._is_void:
            self._is_skipped = True
            self._num_skipped += self._num_skipped >= 0
            if self._num_skipped == MOST_SKIPPED:
                raise LoopError(NO_STEP)

    def _check_cleared(self) -> None:
        """Raises LoopError where gradients of a batch without a step go on: workers that join lack them."""
        self._is_skipped = False
        gradients = (parameter.grad for parameter in self._task.state.model.parameters())
        if any(gradient is not None and bool(gradient.any()) for gradient in gradients):
            raise LoopError(ACCUMULATED)

    def _check_out(self) -> tuple[Share, Pass]:
        """The pass that is out. Raises LoopError if there is none."""
        if self._out is None:
            without = "run.backward(loss) without a batch; call it once for each batch of run.batches()"
            raise LoopError(TWICE if self._is_within else without)
        return self._out

    def _check_step(self, optimizer: torch.optim.Optimizer | None) -> torch.optim.Optimizer:
        """Return what is to step. Raises LoopError where that is strange, or `step` is called too early."""
        if not self._may_step:
            raise LoopError("run.step() without run.backward(loss) before it; call both once for each batch")
        if self._several is not None:
            stepping = self._several.check(optimizer)
        else:
            self._may_step, stepping = False, self._task.state.optimizers[0]
            if optimizer is not None and optimizer is not stepping:
                raise LoopError(
                    f"run.step() got a {type(optimizer).__qualname__} of the script's own: {GIVE_ALL}"
                )
        return stepping

    def _weighed(self, out: tuple[Share, Pass], weight: SupportsFloat | None) -> tuple[Share, Pass, bool]:
        """The share and the pass that is out, with its weight, and whether it is the last of its step."""
        share, part = out
        if self._several is not None:
            # A small number tells the sums of a batch apart: workers that make different ones find it.
            turn = 1 + len(self._turns) % 8 + 8 * (self._task.state.updates % 8)
            self._is_weighted, share = None, replace(share, turn=turn)
        is_last = part is share.passes[-1]
        if weight is not None or self._is_weighted:
            part = self._weigh(part, weight)
            share = share.weighted(part) if is_last else share
        return share, part, is_last

    def _update(self, optimizer: torch.optim.Optimizer) -> None:
        """Apply the gradients of the step. The batch counts now, or with several optimizers at its end."""
        self._is_applying = True
        if self._turns[-1].has_weight:
            self._task.state.apply(optimizer)
        self._is_applying, self._has_stepped = False, True
        if self._several is None:
            self._close_batch()
        else:
            self._task.state.is_within_batch = True

    def _close_batch(self) -> None:
        """The batch whose sums are there counts, if there is one."""
        turns, self._turns = self._turns, []
        if not turns:
            return
        assert self._share is not None  # noqa: S101 - a batch is open
        self._is_applying = True
        self._task.course.finish_step(self._share)
        self._task.state.finish_batch(turns[0].loss if turns[0].has_weight else None)
        self._is_applying = False
        self._share = None
        self._seed_between()
        self._host.finish_step(turns[-1])

    def _seed_between(self) -> None:
        """What is drawn until the next batch is the same on all workers."""
        place, host = self._task.course.place, self._host
        seed_streams(host.device, host.seed, Purpose.BETWEEN, place.step)

    def _revert(self, frame: FrameType | None = None) -> None:
        """Nothing of the step is left."""
        self._task.gradients.abandon()
        self._is_applying = True
        self._task.state.undo.revert(frame)
        self._is_applying = False
        self._turns, self._share = [], None
        self._task.state.forget_batch()

    # ------------------------------------------------------------------ several optimizers
    def _begin_turns(self, share: Share) -> None:
        if len(share.passes) > 1:
            raise LoopError(
                f"the share of this worker ({share.num_local} samples) does not fit in one pass; with "
                "several optimizers it must, for each is to see what the one before has changed: ask for "
                "more workers, take a smaller batch, or a larger max_local_batch"
            )
        self._task.state.undo.keep_all()

    def _weigh(self, part: Pass, weight: SupportsFloat | None) -> Pass:
        """A pass with the weight that the script gives it: all passes of a step have one, or none."""
        if weight is None or self._is_weighted is False:
            raise LoopError(MIXED_WEIGHTS)
        if self._task.is_sum:
            raise LoopError(
                "run.backward(loss, weight=...) and elastic(loss_reduction='sum'): a sum has no weight; take "
                "one of the two out"
            )
        number = float(weight)
        if not 0.0 <= number < math.inf:
            raise LoopError(
                f"run.backward(loss, weight={number}): a weight is a finite number, 0 or more: how many "
                "tokens, labels or the like the loss is a mean over"
            )
        return replace(part, weight=number)

    def _check_stepper(self, *_: object) -> None:
        """Before any update by an optimizer of `elastic`'s."""
        if self._is_within and not self._is_applying:
            raise LoopError(
                "the script calls optimizer.step() in its loop over run.batches(); run.step() does that, "
                "with the average of all workers that run.backward(loss) has made: put it in its place"
            )

    def settle(self, error: BaseException, line: str) -> None:
        """The script has raised an error: see `Host.settle`."""
        self._host.settle(error, line)

    def see_end(self) -> None:
        """The script has raised an error, and its functions are about to be cleared."""
        self._task.state.variables.see_end()

    def keep(self, is_end: bool) -> None:
        """This process ends in the middle of a step: save the state before it, if that is still whole.

        `is_end`: of all workers, and not just of this one.
        """
        if self._is_applying:
            return
        if self._share is not None:  # of a step that is not done
            self._revert()
        self._host.keep(is_end)

    def is_early(self, stop: SystemExit | None = None) -> bool:
        """Whether the script ends before its job, and has not left `epochs` by itself.

        `stop`: what it called `sys.exit` with; that may have been in its loop. None: it has come to its end.
        """
        if self.should_stop():
            return False
        if stop is None:
            return not self._goes_through_epochs
        self._task.state.variables.see_end()  # with what its functions held the loop over epochs may end
        return not self._left_at or is_raised_at(self._left_at, stop)

    def finish(self, stop: SystemExit | None = None) -> None:
        """Training is over, also for a script that left its loop early. Once; `epochs` does it at its end.

        `stop`: see `is_early`.
        """
        if not self._is_finished:
            self._close_batch()
            self._is_finished = True
            is_early = self.is_early(stop)
            self._task.state.forget_loads()
            self._task.state.forms.leave()
            for hook in self._hooks:
                hook.remove()
            self._feed.close()
            self._host.finish(is_early)


#: Runs of this process, in order; the runner closes one that the script left early.
started: list[Run] = []


def check_not_scaled(loss: torch.Tensor) -> None:
    """Raises LoopError: it is what a GradScaler has scaled, whose factor would stay on the gradients."""
    factor = getattr(loss.grad_fn, "_saved_other", None)
    if not isinstance(factor, torch.Tensor):
        return
    scalers = (each for each in gc.get_objects() if issubclass(type(each), torch.amp.GradScaler))
    if any(each._scale is not None and each._scale.data_ptr() == factor.data_ptr() for each in scalers):
        raise LoopError(
            "run.backward() was given scaler.scale(loss); call run.backward(loss, scaler=scaler), and take "
            "out scaler.step(optimizer) and scaler.update(), which run.step() does"
        )


def mean_of(loss: torch.Tensor) -> torch.Tensor:
    """The loss that a script gives to `run.backward`, without its graph. Raises LoopError if it is none."""
    if not isinstance(loss, torch.Tensor):
        raise LoopError(
            f"run.backward() was given a {type(loss).__qualname__}; give it the loss as a tensor, the mean "
            "over the samples of this batch"
        )
    if loss.ndim and loss.numel() != 1:
        raise LoopError(
            f"run.backward() was given a loss of shape {tuple(loss.shape)}; give it the mean, one number"
        )
    if loss.is_complex():
        raise LoopError(
            "run.backward() was given a complex loss, of which only a real number can be averaged and told; "
            "give it loss.real or loss.abs()"
        )
    return loss.detach().reshape(()) if loss.ndim else loss.detach()

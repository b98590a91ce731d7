"""One step's sum over passes and workers: of gradients, and in the same buffer of what else all must know."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

from swell.train.collective.bucketed_sum import BucketedSum
from swell.train.collective.group import BROKEN_ELSEWHERE, Group, GroupBroken
from swell.train.collective.norms import BatchNormStatistics, StepBuffers
from swell.train.collective.packing import NUM_VOTES, NUM_WORDS, FlatBuffer, Packing, is_same
from swell.train.collective.pieces import local, reshard
from swell.train.collective.positions import ALONE, Positions
from swell.train.data.sample_schedule import Pass, Share, StreamError
from swell.train.data.unequal_shares import NOTHING_TOLD, SpeedNote


class LoopError(RuntimeError):
    """The script's loop is not one that can be resized."""


class EpochLeft(LoopError):
    """The script has left its loop over an epoch's batches before the last one, and goes on training."""


UNFROZEN = (
    "the script sets requires_grad of parameters between a batch and its run.backward(loss); set it before "
    "`for batch in run.batches():`, at the beginning of an epoch"
)
RETRIED = (
    "run.backward(loss) is called again after it raised, and a part of its gradients is summed over the "
    "hosts already; let the error end the script"
)
_NOTHING = torch.zeros(NUM_WORDS)
BEFORE = (
    "a parameter has a gradient before run.backward(loss), and samples are divided among the processes of a "
    "worker, whose parts are weighed by the loss; add the losses and give run.backward(loss) their sum, and "
    "call optimizer.zero_grad() before it"
)
NO_GRAPH = (
    "run.backward(loss) was given a loss without a graph, and samples are divided among the processes of a "
    "worker, whose gradients are summed within the backward pass; give it the loss with its graph"
)
MIXED_WEIGHTS = (
    "run.backward(loss, weight=...) was given a weight in some passes of a step and none in others; give one "
    "in all of them: 0 where a pass has nothing to learn from"
)


@dataclass(frozen=True, slots=True)
class StepVote:
    """What one worker says in one step."""

    vote: bool = False  #: it has an order waiting
    stop: bool = False  #: it saw the end condition met
    saves: bool = False  #: it will save the state once the step is done
    speed: SpeedNote = NOTHING_TOLD  #: of the worker whose turn it is, and zeros of others
    equality: torch.Tensor | None = None  #: `equality.to_words` of what must be the same; None: no comparison

    def write(self, said: torch.Tensor, share: Share) -> None:
        """`said`: of shape (NUM_SAID,)."""
        votes = (self.vote, self.stop, self.saves, share.mark, int(share.is_weighted), *self.speed)
        said[:NUM_VOTES].copy_(torch.tensor(votes, dtype=torch.float64))
        said[NUM_VOTES:].copy_(_NOTHING if self.equality is None else self.equality)


@dataclass(frozen=True, slots=True)
class StepTotals:
    """What all workers said in one step, summed."""

    loss: torch.Tensor  #: of the step's samples, () on the model's device; 0 without `has_weight`
    num_votes: int  #: processes that have an order waiting
    is_stop: bool  #: somebody saw the end condition met
    is_save: bool = False  #: the state is saved once the step is done
    is_same: bool = True  #: what they were to compare is the same on all workers
    has_weight: bool = True  #: False: the weights of all passes are 0, and there is no gradient
    speed: SpeedNote = NOTHING_TOLD  #: of the worker whose turn it was


class Gradients:
    """Sums gradients over workers in one piece, as is fastest: rounding depends on the number of workers.

    A step is `begin`, then for each pass but the last `add`, and for the last `reduce`; or `abandon`.
    """

    _flat: FlatBuffer | None = None  # of the step under way, and then of the next one

    def __init__(self, model: nn.Module, positions: Positions = ALONE) -> None:
        """`positions`: of the processes that the model is divided among."""
        self._model, self._positions = model, positions
        self._statistics = BatchNormStatistics(model)
        self._buffers = StepBuffers(model)
        self._is_begun = False  # a pass of this step is packed
        self._overlapped: BucketedSum | None = None  # the sum of the step, from its last backward pass on
        self._silenced: list[RemovableHandle] = []  # by the pass under way
        self._remake()

    @property
    def num_bytes(self) -> int:
        """Bytes that a step sums over the workers."""
        return self._packing.num_bytes

    def begin(self, share: Share) -> None:
        """A step begins; a pass that is not over is forgotten."""
        if self._packing.is_stale:
            self._remake()
        self._statistics.begin()
        self._buffers.begin()
        self._is_begun = False

    def overlap(self, part: Pass, group: Group) -> None:
        """The step's last backward pass here begins: sum its gradients over the workers as they come."""
        if self._packing.is_stale:
            self._follow()
        if self._overlapped is not None and self._overlapped.has_begun:
            raise LoopError(RETRIED)
        self._end_overlap()
        flat = self._flat = self._flat or self._packing.new()
        factor = part.factor if part.num_local else 0.0  # not `* 0`: a borrowed sample's inf would become nan
        parameters = self._packing.parameters
        self._overlapped = BucketedSum(parameters, flat, group, factor, adds=self._is_begun)

    def _end_overlap(self) -> None:
        if self._overlapped is not None:
            self._overlapped.abandon()
            self._overlapped = None

    def weighted(self, part: Pass, loss: torch.Tensor, has_several: bool = False) -> torch.Tensor:
        """The loss for a backward pass, in which processes with other samples average their gradients.

        Args:
            has_several: optimizers, of which some leave gradients of their parameters there.

        Raises:
            LoopError: it has no graph, or there are gradients already, which nothing weighs.
        """
        if self._positions.num_parts == 1:
            return loss
        if not loss.requires_grad:
            raise LoopError(NO_GRAPH)
        before = [] if has_several else [each.grad for each in self._packing.parameters]
        if any(each is not None and bool(local(each).any()) for each in before):
            raise LoopError(BEFORE)
        if part.num_local and part.factor:
            return loss * (self._positions.num_parts * part.factor)
        loss = loss * 0.0
        self._silenced = silence(loss)  # where it was nan it is nan
        return loss

    def add(self, part: Pass, loss: torch.Tensor) -> None:
        """Keep the gradients of a pass that was not the step's last, and take them off the model.

        Args:
            loss: of this pass.
        """
        if self._packing.is_stale:
            self._follow()
        self._pack(part, loss)
        self._packing.drop()
        self._statistics.rewind()
        self._buffers.rewind()

    def reduce(self, share: Share, loss: torch.Tensor, ballot: StepVote, group: Group) -> StepTotals:
        """Put the step's sum over all passes and workers in place of the gradients of its last pass here.

        Each pass counts by its factor. If passes have weights, the sum is divided by theirs.

        Args:
            loss: of this pass.

        Raises:
            LoopError: no worker has a gradient, or some workers give weights and others do not.
        """
        if self._packing.is_stale:
            self._follow()
        has_one_pass = group.num_workers == len(share.passes) == 1 and not share.shards
        is_there = has_one_pass and self._packing.is_averaged  # what the step sums
        if is_there and self._positions.num == 1:
            group.check()
            has_weight = bool(share.passes[0].factor)
            self._check_gradient(has_weight, self._packing.has_gradient())
            if not has_weight:  # a mean over nothing
                self._packing.drop()
                loss = torch.zeros_like(loss)
            return StepTotals(loss, int(ballot.vote), ballot.stop, ballot.saves, has_weight=has_weight)
        if not is_there:
            self._pack(share.passes[-1], loss)
        try:
            if is_there:
                flat = self._words(share, loss, ballot, group)
            else:
                flat = self._sum(share, ballot, group)
        except GroupBroken:
            if self._positions.num > 1:
                group.break_off()
                self._agree(None, group.num_workers)
            raise
        if self._positions.num > 1:
            self._agree(flat, group.num_workers)
        read = self._packing.divide if is_there else self._packing.read
        has_gradient, divisor, said = read(flat, share)
        *counts, sample_s, most = said[:NUM_VOTES]
        votes, stops, saves, marks, num_weighted = map(round, counts)
        check_agreement(marks, num_weighted, share, group.num_workers * self._positions.num)
        self._check_gradient(divisor > 0.0, has_gradient)
        return StepTotals(
            loss=flat.loss.clone(),
            num_votes=votes,
            is_stop=stops > 0,
            is_save=saves > 0,
            is_same=is_same(said[NUM_VOTES:], group.num_workers),
            has_weight=divisor > 0.0,
            speed=SpeedNote(sample_s, round(most)),
        )

    def _check_gradient(self, has_weight: bool, has_gradient: bool) -> None:
        if has_weight and not has_gradient:
            raise LoopError(
                "run.backward(loss), and no parameter has a gradient after it; give it a loss that is "
                "computed from the model's parameters, with its graph"
            )

    def abandon(self) -> None:
        """The step does not count: the model's statistics are again what they were when it began."""
        self._end_overlap()
        self._hear()
        self._statistics.rewind()
        self._buffers.rewind()
        for parameter in self._model.parameters():  # a script may clear them after an update only
            parameter.grad = None

    def _remake(self) -> None:
        """Sum the parameters that are trained by now."""
        reshard(self._model)
        self._packing = Packing(self._model, self._statistics, self._positions)
        self._flat = None

    def _follow(self) -> None:
        """The script has unfrozen parameters since it got the batch. Raises LoopError: it is too late."""
        if self._is_begun:
            raise LoopError(UNFROZEN)
        self._remake()

    def _hear(self) -> None:
        """The next backward pass is to have its gradients."""
        for handle in self._silenced:
            handle.remove()
        self._silenced = []

    def _pack(self, part: Pass, loss: torch.Tensor) -> None:
        """Take what a pass has computed."""
        self._hear()
        flat = self._flat = self._flat or self._packing.new()
        are_there = self._overlapped is not None
        if part.num_local == 0 and self._positions.num_parts > 1:  # it has a share of others' gradients
            part = self._counted(part)
        elif part.num_local == 0:  # not `* 0`: a borrowed sample's inf would become nan
            flat.numbers[len(flat.all_gradients) if are_there else 0 :].zero_()
            self._is_begun = True
            return
        if self._is_begun:
            self._packing.add(flat, part, loss, are_there)
        else:
            self._packing.write(flat, part, loss, are_there)
        self._is_begun = True

    def _agree(self, flat: FlatBuffer | None, num_workers: int) -> None:
        """Have all processes of this worker read the same from the sums at their positions.

        Args:
            flat: None: the sum has failed here, and others are not to wait.

        Raises:
            GroupBroken: it has failed in one of them.
        """
        positions, told = self._positions, torch.zeros(NUM_VOTES + 4, dtype=torch.float64)
        if flat is not None:
            told[:2], told[2:-2] = flat.words[:2] / positions.num_copies, flat.said[:NUM_VOTES]
            told[-2], told[-1] = is_same(flat.said[NUM_VOTES:].tolist(), num_workers), 1
        positions.sum(told)
        if flat is None or told[-1] < positions.num:
            raise GroupBroken(BROKEN_ELSEWHERE)
        flat.words[:2], flat.said[:NUM_VOTES] = told[:2], told[2:-2]
        flat.said[NUM_VOTES:] = 0  # which is the same for all
        flat.said[NUM_VOTES] = float(told[-2] < positions.num)  # and this is not

    def _words(self, share: Share, loss: torch.Tensor, ballot: StepVote, group: Group) -> FlatBuffer:
        """What the only worker says of a step of one pass, whose gradients are averaged already."""
        self._hear()
        part = self._counted(share.passes[0])
        flat = FlatBuffer([], 0, self._packing.dtype, loss.device)
        flat.loss.copy_(loss * part.factor if part.factor else torch.zeros_like(loss))
        flat.counts[0] = part.word
        ballot.write(flat.said, share)
        group.check()
        return flat

    def _counted(self, part: Pass) -> Pass:
        """The pass as it counts: one that is borrowed has no weight."""
        return part if part.num_local or part.weight is None else replace(part, weight=0.0)

    def _sum(self, share: Share, ballot: StepVote, group: Group) -> FlatBuffer:
        """All that was packed by all workers, and what they say."""
        assert self._flat is not None  # noqa: S101 - a pass is packed
        ballot.write(self._flat.said, share)
        overlapped, self._overlapped = self._overlapped, None
        self._packing.average_parts(self._flat)
        if overlapped is None:
            group.sum_all(self._flat.numbers)
        else:
            overlapped.end()
        return self._flat


def silence(loss: torch.Tensor) -> list[RemovableHandle]:
    """Have a backward pass give each parameter zeros, until the handles are removed."""
    assert loss.grad_fn is not None  # noqa: S101 - it requires a gradient
    handles, met, ahead = [], {loss.grad_fn}, [loss.grad_fn]
    while ahead:
        node = ahead.pop()
        if hasattr(node, "variable"):  # a leaf
            handles.append(node.register_prehook(_zeros))
        before = {each for each, _ in node.next_functions if each is not None} - met
        met |= before
        ahead += before
    return handles


def _zeros(gradients: tuple[torch.Tensor | None, ...]) -> tuple[torch.Tensor | None, ...]:
    return tuple(None if each is None else torch.zeros_like(each) for each in gradients)


def check_agreement(marks: int, num_weighted: int, share: Share, num_workers: int) -> None:
    """See that all workers mean the same step, by the sums of their `Share.mark` and `Share.is_weighted`.

    Raises:
        StreamError: they are not all at the same place of a stream.
        LoopError: some give weights to their passes, and others do not; a sampler drew
            different orders; or the workers step different optimizers.
    """
    if num_weighted != num_workers * share.is_weighted:
        raise LoopError(
            "some workers give run.backward(loss) a weight in a step, and others do not; give one in each "
            "pass, whatever its samples: weight=0 where a pass has nothing to learn from"
        )
    if marks == num_workers * share.mark:
        return
    if share.turn:
        raise LoopError(
            f"a worker calls run.backward more often than another in step {share.passes[0].step}, or a "
            "sampler gave them different orders; what is done in a step must follow from run.steps, "
            "run.epoch and what run.backward returns, and not from a worker's own samples"
        )
    if not share.unit:
        raise LoopError(
            f"the workers' samplers gave different orders for the epoch of step {share.passes[0].step}; a "
            "sampler must not depend on what a worker has for itself: take out what looks at RANK or the "
            "time, and what one worker alone has measured (elastic() divides the samples among the "
            "workers)"
        )
    raise StreamError(
        f"the workers have read different samples for step {share.passes[0].step}; iter(dataset) must "
        "give the same samples in the same order to all of them: take out what looks at RANK, or at "
        "files that a worker has for itself (elastic() does the split)"
    )

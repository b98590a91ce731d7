"""One step's sum over passes and workers: of gradients, and in the same buffer of what else all must know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import nn

from swell.train.collective.equality import is_same
from swell.train.collective.exchange import Members
from swell.train.collective.norms import BatchNormStatistics
from swell.train.collective.packing import NUM_VOTES, Flat, Packing, Words
from swell.train.data.sample_schedule import Pass, Share
from swell.train.data.stream_schedule import StreamError


class LoopError(RuntimeError):
    """The script's loop is not one that can be resized."""


@dataclass(frozen=True, slots=True)
class StepVote:
    """What one worker says in one step."""

    vote: bool = False  #: it has an order waiting
    stop: bool = False  #: it saw the end condition met
    equality: torch.Tensor | None = None  #: `equality.to_words` of what must be the same; None: no comparison

    def write(self, said: torch.Tensor, share: Share) -> None:
        """`said`: zeros, of shape (NUM_SAID,)."""
        said[:NUM_VOTES].copy_(torch.tensor([float(self.vote), float(self.stop), float(share.mark)]))
        if self.equality is not None:
            said[NUM_VOTES:].copy_(self.equality)


@dataclass(frozen=True, slots=True)
class StepTotals:
    """What all workers said in one step, summed."""

    loss: torch.Tensor  #: mean over the step's samples, () on the model's device
    num_votes: int  #: workers that have an order waiting
    is_stop: bool  #: somebody saw the end condition met
    is_same: bool = True  #: what they were to compare is the same on all workers
    part_squared_norm: float = 0.0  #: see `scaling.PartNorms`
    num_parts: int = 0  #: that this is of


class Gradients(Protocol):
    """A step is `begin`, then for each pass but the last `add`, and for the last `reduce`; or `abandon`."""

    @property
    def num_bytes(self) -> int:
        """Bytes that a step sums over the workers."""

    def begin(self, share: Share, members: Members) -> None:
        """A step begins; a pass that is not over is forgotten.

        Args:
            members: the same that `reduce` will be given.
        """

    def add(self, part: Pass, loss: torch.Tensor) -> None:
        """Keep the gradients of a pass that was not the step's last, and take them off the model.

        Args:
            loss: mean over the samples of this pass.
        """

    def reduce(self, share: Share, loss: torch.Tensor, ballot: StepVote, members: Members) -> StepTotals:
        """Put the mean over all samples of the step in place of the gradients of its last pass here.

        Args:
            loss: mean over the samples of this pass.

        Raises:
            LoopError: no worker has a gradient.
        """

    def abandon(self) -> None:
        """The step does not count: the model's statistics are again what they were when it began."""


class FusedGradients:
    """Sums in the order in which it is fastest: rounding depends on the number of workers."""

    def __init__(self, model: nn.Module, shows_parts: bool = False) -> None:
        """`shows_parts`: sum what `scaling.PartNorms` tells, too."""
        self._statistics = BatchNormStatistics(model)
        self._packing = Packing(model, self._statistics, shows_parts)
        self._flat: Flat | None = None
        self._is_begun = False  # a pass of this step is in the buffer

    @property
    def num_bytes(self) -> int:
        return self._packing.num_bytes

    def begin(self, share: Share, members: Members) -> None:
        self._statistics.begin()
        self._is_begun = False

    def add(self, part: Pass, loss: torch.Tensor) -> None:
        self._pack(part, loss)
        self._packing.drop()
        self._statistics.rewind()

    def reduce(self, share: Share, loss: torch.Tensor, ballot: StepVote, members: Members) -> StepTotals:
        if members.num_workers == 1 and len(share.passes) == 1:  # the mean is there
            return tally_of(Words(loss, self._packing.has_gradient(), ballot.vote, ballot.stop), 1)
        flat = self._pack(share.passes[-1], loss)
        ballot.write(flat.said, share)
        members.sum_all(flat.numbers)
        words = self._packing.read(flat)
        check_marks(words, share, members)
        return tally_of(words, members.num_workers)

    def abandon(self) -> None:
        self._statistics.rewind()

    def _pack(self, part: Pass, loss: torch.Tensor) -> Flat:
        if self._flat is None:
            self._flat = self._packing.new()
        flat = self._flat
        if part.num_local == 0:  # not `* 0`: a borrowed sample's inf would become nan
            flat.numbers.zero_()
        elif self._is_begun:
            self._packing.add(flat, part.weight_share, loss)
        else:
            self._packing.write(flat, part.weight_share, loss)
        self._is_begun = True
        return flat


def check_marks(words: Words, share: Share, members: Members) -> None:
    """Raises StreamError if the workers are not all at the same place of a stream."""
    if words.sum_of_marks != members.num_workers * share.mark:
        raise StreamError(
            f"the workers have read different samples for step {share.passes[0].step}; iter(dataset) must "
            "give the same samples in the same order to all of them: take out what looks at RANK, or at "
            "files that a worker has for itself (elastic() does the split)"
        )


def tally_of(words: Words, num_workers: int) -> StepTotals:
    if not words.has_gradient:
        raise LoopError(
            "run.step(loss), and no parameter has a gradient; call loss.backward() before it, and "
            "optimizer.zero_grad() before that"
        )
    return StepTotals(
        loss=words.loss,
        num_votes=words.num_votes,
        is_stop=words.num_stops > 0,
        is_same=is_same(words.equality, num_workers),
        part_squared_norm=words.part_squared_norm,
        num_parts=words.num_parts,
    )

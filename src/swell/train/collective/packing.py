"""A model's gradients as one flat buffer: what can be summed in a single piece."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from torch import nn

from swell.train.collective.equality import NUM_WORDS
from swell.train.collective.norms import BatchNormStatistics

#: What each worker says beside what it has computed: votes, stops, marks.
NUM_VOTES = 3
#: These, and what tells whether all workers are the same.
NUM_SAID = NUM_VOTES + NUM_WORDS


class Words(NamedTuple):
    """What stands behind the gradients in a buffer."""

    loss: torch.Tensor  #: (), weighted
    has_gradient: bool
    num_votes: int  #: workers that have an order waiting
    num_stops: int  #: workers that saw the end condition met
    sum_of_marks: int = 0  #: see `Share.mark`
    part_squared_norm: float = 0.0  #: see `scaling.PartNorms`
    num_parts: int = 0  #: passes that are in it
    equality: Sequence[float] = (0.0,) * NUM_WORDS  #: see `equality.is_same`


class Flat:
    """Gradients, statistics and words, one after the other.

    Words: the weighted loss; if they are wanted, the weighted squared norms of the passes' gradients and the
    number of passes; for each gradient and each statistic the number of passes that had one; and what
    is `said`: votes, stops and marks, and the words of `equality`.
    """

    def __init__(
        self, tensors: list[torch.Tensor], num_gradients: int, dtype: torch.dtype, num_norms: int
    ) -> None:
        """`num_gradients`: the first so many tensors are parameters."""
        sizes = [*(tensor.numel() for tensor in tensors), 1 + num_norms + len(tensors) + NUM_SAID]
        self.numbers = torch.empty(sum(sizes), dtype=dtype, device=tensors[0].device)
        *parts, self.words = self.numbers.split(sizes)
        self.parts = [part.view(tensor.shape) for part, tensor in zip(parts, tensors, strict=True)]
        self.rest = self.numbers[sum(sizes[:num_gradients]) :]  #: all but the gradients
        self.loss = self.words[0]
        _, self.norms, self.counts, self.said = self.words.split([1, num_norms, len(tensors), NUM_SAID])


class Packing:
    """Between a model and flat buffers: `write` or `add`, sum, `read`."""

    def __init__(self, model: nn.Module, statistics: BatchNormStatistics, shows_parts: bool = False) -> None:
        """`shows_parts`: sum what `scaling.PartNorms` tells, too."""
        self.parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self._statistics = statistics
        self._tensors: list[torch.Tensor] = [*self.parameters, *statistics.tensors]
        is_wide = any(parameter.dtype == torch.float64 for parameter in self.parameters)
        self.dtype = torch.float64 if is_wide else torch.float32  #: of a flat buffer
        self._num_norms = 2 if shows_parts else 0

    @property
    def num_bytes(self) -> int:
        """Bytes of a flat buffer."""
        num_words = 1 + self._num_norms + len(self._tensors) + NUM_SAID
        num_numbers = sum(tensor.numel() for tensor in self._tensors) + num_words
        return num_numbers * self.dtype.itemsize

    def new(self) -> Flat:
        """A buffer, not yet written to."""
        return Flat(self._tensors, len(self.parameters), self.dtype, self._num_norms)

    @torch.no_grad()
    def write(self, flat: Flat, weight: float, loss: torch.Tensor) -> None:
        """Put the model's gradients there, times `weight`; where there is none, zeros. No votes."""
        self._write(flat, range(len(self._tensors)), weight)
        self._count(flat, weight, loss)

    @torch.no_grad()
    def write_gradients(self, flat: Flat, places: range, weight: float) -> None:
        """Write the gradients of these parameters alone, times `weight`; see `write`."""
        self._write(flat, places, weight)

    @torch.no_grad()
    def write_rest(self, flat: Flat, weight: float, loss: torch.Tensor) -> None:
        """Write all but the gradients: statistics, loss and counts; see `write`."""
        self._write(flat, range(len(self.parameters), len(self._tensors)), weight)
        self._count(flat, weight, loss)

    @torch.no_grad()
    def add(self, flat: Flat, weight: float, loss: torch.Tensor) -> None:
        """Add the model's gradients, times `weight`."""
        targets, sources, _ = self._present(flat, range(len(self._tensors)))
        if targets:
            torch._foreach_add_(targets, sources, alpha=weight)
        before = flat.words.clone()
        self._count(flat, weight, loss)
        flat.words += before

    @torch.no_grad()
    def read(self, flat: Flat) -> Words:
        """Put what is there into the model. A gradient that no pass had stays away: its optimizer rests.

        Where it can, a parameter borrows its part of the buffer as its gradient until the next step, which
        saves a copy. The next `write` reads such a gradient and scales it in place.
        """
        _, *words = flat.words.tolist()  # the step's only wait for a GPU
        norms, counts, said = words[: self._num_norms], words[self._num_norms : -NUM_SAID], words[-NUM_SAID:]
        targets: list[torch.Tensor] = []
        sources: list[torch.Tensor] = []
        for tensor, part, count in zip(self._tensors, flat.parts, counts, strict=True):
            if count == 0:
                if isinstance(tensor, nn.Parameter):
                    tensor.grad = None  # a borrowed sample may have left one
                continue
            if isinstance(tensor, nn.Parameter):
                if tensor.dtype == part.dtype and tensor.is_contiguous():
                    tensor.grad = part
                    continue
                if tensor.grad is None:
                    tensor.grad = torch.empty_like(tensor)
                tensor = tensor.grad
            targets.append(tensor)
            sources.append(part)
        if targets:
            torch._foreach_copy_(targets, sources)
        has_gradient = any(counts[: len(self.parameters)])
        num_votes, num_stops, marks = map(round, said[:NUM_VOTES])
        squared_norm, num_parts = norms or (0.0, 0.0)
        equality = said[NUM_VOTES:]
        loss = flat.loss.clone()
        return Words(
            loss, has_gradient, num_votes, num_stops, marks, squared_norm, round(num_parts), equality
        )

    def has_gradient(self) -> bool:
        return any(parameter.grad is not None for parameter in self.parameters)

    def drop(self) -> None:
        """Take the model's gradients away, so that the next pass does not add to them."""
        for parameter in self.parameters:
            parameter.grad = None

    def _write(self, flat: Flat, places: range, weight: float) -> None:
        targets, sources, others = self._present(flat, places)
        if others:
            torch._foreach_zero_(others)
        _copy_scaled(targets, sources, weight)

    def _present(
        self, flat: Flat, places: range
    ) -> tuple[list[torch.Tensor], list[torch.Tensor], list[torch.Tensor]]:
        """Parts of the buffer and the gradients or statistics for them; parts for which there is none."""
        targets, sources, others = [], [], []
        for place in places:
            tensor, part = self._tensors[place], flat.parts[place]
            source = tensor.grad if isinstance(tensor, nn.Parameter) else tensor
            if source is None:
                others.append(part)
                continue
            if source.layout != torch.strided:
                raise TypeError(
                    "a gradient is sparse; swell.train sums dense gradients only: "
                    "build the embedding with sparse=False"
                )
            targets.append(part)
            sources.append(source)
        return targets, sources, others

    def _count(self, flat: Flat, weight: float, loss: torch.Tensor) -> None:
        had_gradient = (parameter.grad is not None for parameter in self.parameters)
        counts = [float(count) for count in (*had_gradient, *self._statistics.moved())]
        flat.counts.copy_(torch.tensor(counts, dtype=self.dtype))
        flat.said.zero_()
        if self._num_norms:
            flat.norms[0].copy_(weight * squared_norm(self.parameters))
            flat.norms[1] = 1.0
        torch.mul(loss.to(flat.words.device, self.dtype), weight, out=flat.loss)


def squared_norm(parameters: Iterable[nn.Parameter]) -> torch.Tensor:
    """Squared norm of the gradients of all these parameters together, shape (); 0 without gradients."""
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    if not gradients:
        return torch.zeros(())
    return torch.stack(torch._foreach_norm(gradients)).double().square().sum()


def _copy_scaled(targets: list[torch.Tensor], sources: list[torch.Tensor], weight: float) -> None:
    """Write the sources times `weight` to the targets.

    That is one pass over the memory on a CPU, and few kernels on a GPU.
    """
    if targets and targets[0].device.type != "cpu":
        torch._foreach_copy_(targets, sources)
        torch._foreach_mul_(targets, weight)
        return
    for target, source in zip(targets, sources, strict=True):
        if source.dtype == target.dtype:
            torch.mul(source, weight, out=target)
        else:  # scaled in the wider type
            target.copy_(source).mul_(weight)

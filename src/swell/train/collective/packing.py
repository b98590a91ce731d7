"""A model's gradients as one flat buffer: what can be summed in a single piece."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import torch
from torch import nn

from swell.train.collective.equality import NUM_WORDS
from swell.train.collective.norms import BatchNormStatistics
from swell.train.collective.real_numbers import as_real
from swell.train.data.sample_schedule import Pass, Share

#: What each worker says in addition to what it has computed: votes, stops, marks, habits.
NUM_VOTES = 4
_MARK = "_swell_has_trained"
#: These, and what tells whether all workers are the same.
NUM_SAID = NUM_VOTES + NUM_WORDS


class FlatBuffer:
    """Gradients, statistics and words, one after the other.

    Words: the weighted loss; the sum of the passes' words, see `Pass.word`; for each gradient and each
    statistic the number of passes that had one; and what is `said`: votes, stops, marks and habits, and the
    words of `equality`.
    """

    def __init__(
        self, shapes: Sequence[torch.Size], num_gradients: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        """
        Args:
            shapes: of the tensors, a complex one's as real numbers.
            num_gradients: the first so many tensors are parameters.
        """
        num_counts = 1 + len(shapes)
        sizes = [*(shape.numel() for shape in shapes), 1 + num_counts + NUM_SAID]
        self.numbers = torch.empty(sum(sizes), dtype=dtype, device=device)
        *parts, self.words = self.numbers.split(sizes)
        self.parts = [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]
        self.gradients = self.numbers[: sum(sizes[:num_gradients])]
        self.loss = self.words[0]
        #: `counts`: the pass's word, and the numbers of passes
        _, self.counts, self.said = self.words.split([1, num_counts, NUM_SAID])


class Packing:
    """Between a model and flat buffers: `write` or `add`, sum, `read`; all without autograd."""

    def __init__(
        self, model: nn.Module, statistics: BatchNormStatistics, apart: Collection[int] = ()
    ) -> None:
        """`apart`: ids of parameters that are summed in another way."""
        mark_trained(parameter for parameter in model.parameters() if parameter.requires_grad)
        parameters = [parameter for parameter in model.parameters() if id(parameter) not in apart]
        self.parameters = [parameter for parameter in parameters if was_trained(parameter)]
        self._untrained = [parameter for parameter in parameters if not was_trained(parameter)]
        self._device = next(model.parameters()).device
        self._statistics = statistics
        self._tensors: list[torch.Tensor] = [*self.parameters, *statistics.tensors]
        self._shapes = [as_real(tensor.detach()).shape for tensor in self._tensors]
        self._has_complex = any(tensor.is_complex() for tensor in self._tensors)
        is_wide = any(parameter.dtype in (torch.float64, torch.complex128) for parameter in self.parameters)
        self.dtype = torch.float64 if is_wide else torch.float32  #: of a flat buffer

    @property
    def num_bytes(self) -> int:
        """Bytes of a flat buffer."""
        num_words = 2 + len(self._tensors) + NUM_SAID
        num_numbers = sum(shape.numel() for shape in self._shapes) + num_words
        return num_numbers * self.dtype.itemsize

    @property
    def is_stale(self) -> bool:
        """Whether parameters are trained by now, on any worker, that were not when this was made."""
        if not self._untrained:  # asked twice a step
            return False
        return any(parameter.requires_grad or was_trained(parameter) for parameter in self._untrained)

    def new(self) -> FlatBuffer:
        """A buffer, not yet written to."""
        return FlatBuffer(self._shapes, len(self.parameters), self.dtype, self._device)

    def write(self, flat: FlatBuffer, part: Pass, loss: torch.Tensor) -> None:
        """Put the model's gradients there, times the pass's factor; where there is none, zeros. No votes."""
        for places, factor in self._factors(part):
            self._write(flat, places, factor)
        self._count(flat, part, loss)

    def add(self, flat: FlatBuffer, part: Pass, loss: torch.Tensor) -> None:
        """Add the model's gradients, times the pass's factor."""
        for places, factor in self._factors(part):
            targets, sources, _ = self._present(flat, places)
            if targets and factor:
                torch._foreach_add_(targets, sources, alpha=factor)
        before = flat.words.clone()
        self._count(flat, part, loss)
        flat.words += before

    def read(self, flat: FlatBuffer, share: Share) -> tuple[bool, float, list[float]]:
        """Put what is there into the model. A gradient that no pass had stays away: its optimizer rests.

        Where it can, a parameter borrows its part of the buffer as its gradient until the next step, which
        saves a copy. The next `write` reads such a gradient and scales it in place.

        Args:
            share: says by what to divide. If that is 0, there is no gradient.

        Returns:
            whether there is a gradient; the divisor, see `Share.divisor`; the sum of what workers have said.
        """
        _, word, *words = flat.words.tolist()  # the step's only wait for a GPU
        counts, said = words[: len(self._tensors)], words[len(self._tensors) :]
        divisor = share.divisor(word)
        if divisor not in (0.0, 1.0):
            flat.gradients.div_(divisor)
            flat.loss.div_(divisor)
        if not divisor:
            counts[: len(self.parameters)] = [0.0] * len(self.parameters)
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
                if tensor.grad is None or tensor.grad.is_conj():  # which has no real numbers of its own
                    tensor.grad = torch.empty_like(tensor)
                tensor = tensor.grad
            targets.append(tensor.data)  # a graph that the script still holds may go through a statistic
            sources.append(part)
        if self._has_complex:
            targets = [as_real(target) for target in targets]
        if targets:
            torch._foreach_copy_(targets, sources)
        return any(counts[: len(self.parameters)]), divisor, said

    def has_gradient(self) -> bool:
        return any(parameter.grad is not None for parameter in self.parameters)

    def drop(self) -> None:
        """Take the model's gradients away, so that the next pass does not add to them."""
        for parameter in self.parameters:
            parameter.grad = None

    def _factors(self, part: Pass) -> list[tuple[range, float]]:
        """Places of the gradients and of the statistics, and what each is multiplied by."""
        num_gradients, num_tensors = len(self.parameters), len(self._tensors)
        if part.weight is None and not part.num_dropped:
            return [(range(num_tensors), part.weight_share)]
        return [(range(num_gradients), part.factor), (range(num_gradients, num_tensors), part.weight_share)]

    def _write(self, flat: FlatBuffer, places: range, factor: float) -> None:
        targets, sources, others = self._present(flat, places)
        if factor == 0.0:  # not `* 0`: a mean over nothing is NaN
            others, targets, sources = others + targets, [], []
        if others:
            torch._foreach_zero_(others)
        _copy_scaled(targets, sources, factor)

    def _present(
        self, flat: FlatBuffer, places: range
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
        if self._has_complex:
            sources = [as_real(source) for source in sources]
        return targets, sources, others

    def _count(self, flat: FlatBuffer, part: Pass, loss: torch.Tensor) -> None:
        had_gradient = [parameter.grad is not None for parameter in self.parameters]
        counts = [float(count) for count in (*had_gradient, *self._statistics.moved())]
        flat.counts.copy_(torch.tensor([part.word, *counts], dtype=self.dtype))
        flat.said.zero_()
        if part.factor == 0.0:
            flat.loss.zero_()
            return
        torch.mul(loss.to(flat.words.device, self.dtype), part.factor, out=flat.loss)


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


# What a run has trained so far: a script may freeze parameters, and unfreeze others later. They only become
# more, so that buffers of a step have the same parts on all workers, whenever those came.
def mark_trained(parameters: Iterable[nn.Parameter]) -> None:
    for parameter in parameters:
        setattr(parameter, _MARK, True)


def was_trained(parameter: nn.Parameter) -> bool:
    return hasattr(parameter, _MARK)

"""A model's gradients and what a worker says, as one flat buffer: what can be summed in a single piece.

Whether a 64-bit number is the same on all workers is told by a sum, too, exact in float32. It is cut into
pieces of 6 bits. Each worker gives each piece h and its square. For n workers
`n * sum(h * h) == sum(h) ** 2` holds if and only if all h are equal (Cauchy-Schwarz). The sums are whole
numbers up to 2**24, which float32 adds without rounding in any order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import nn

from swell.train.collective.norms import BatchNormStatistics
from swell.train.collective.pieces import as_real, local, shard_like
from swell.train.collective.positions import ALONE, Positions
from swell.train.data.sample_schedule import Pass, Share

PIECE_BITS = 6
NUM_PIECES = -(-64 // PIECE_BITS)
#: Numbers that tell whether all workers are the same, see `to_words`.
NUM_WORDS = 2 * NUM_PIECES
#: With more workers their sums would be rounded.
MAX_WORKERS = 2**24 // (2**PIECE_BITS - 1) ** 2
#: What each worker says in addition to what it has computed: votes, stops, saves, marks, habits, and its
#: `SpeedNote`, of which it gives zeros unless it is its turn.
NUM_VOTES = 7
#: These, and those words.
NUM_SAID = NUM_VOTES + NUM_WORDS
_MARK = "_swell_has_trained"


class FlatBuffer:
    """Gradients, statistics and words, one after the other.

    Words: the weighted loss; the sum of the passes' words, see `Pass.word`; for each gradient and each
    statistic the number of passes that had one; and what is `said`: votes, stops, marks and habits, and the
    words that tell whether all are the same.
    """

    lent: list[torch.Tensor]  #: the gradients as parameters borrow them

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
        views = [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]
        self.gradients, self.statistics = views[:num_gradients], views[num_gradients:]
        self.all_gradients = self.numbers[: sum(sizes[:num_gradients])]
        self.loss = self.words[0]
        #: `counts`: the pass's word, and the numbers of passes
        _, self.counts, self.said = self.words.split([1, num_counts, NUM_SAID])


class Packing:
    """Between a model and flat buffers: `write` or `add`, sum, `read`; no graph goes through it.

    Of a parameter that is divided among the processes of a worker, only what is here is packed.
    """

    def __init__(
        self, model: nn.Module, statistics: BatchNormStatistics, positions: Positions = ALONE
    ) -> None:
        """`positions`: where they share samples out, gradients have the factors of their passes already."""
        parameters = [*model.parameters()]
        mark_trained(parameter for parameter in parameters if parameter.requires_grad)
        self.parameters = [parameter for parameter in parameters if was_trained(parameter)]
        self._untrained = [parameter for parameter in parameters if not was_trained(parameter)]
        self._device = next(model.parameters()).device
        self._statistics = statistics
        tensors = [*self.parameters, *statistics.tensors]
        self._positions = positions
        #: Of each tensor, the dimensions of the mesh along which `average_parts` averages it.
        self._left = [positions.left_to_average(parameter) for parameter in self.parameters]
        self._left += [positions.dimensions for _ in statistics.tensors]
        self.is_averaged = not any(self._left)  #: the script averages all that is packed by itself
        self._shapes = [as_real(local(tensor.detach())).shape for tensor in tensors]
        self._has_complex = any(tensor.is_complex() for tensor in tensors)
        is_wide = any(parameter.dtype in (torch.float64, torch.complex128) for parameter in self.parameters)
        self.dtype = torch.float64 if is_wide else torch.float32  #: of a flat buffer

    @property
    def num_bytes(self) -> int:
        """Bytes of a flat buffer."""
        num_words = 2 + len(self._shapes) + NUM_SAID
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
        flat = FlatBuffer(self._shapes, len(self.parameters), self.dtype, self._device)
        pairs = zip(self.parameters, flat.gradients, strict=True)
        flat.lent = [shard_like(parameter, part) for parameter, part in pairs]
        return flat

    def write(self, flat: FlatBuffer, part: Pass, loss: torch.Tensor, are_there: bool = False) -> None:
        """Put the model's gradients there, times the pass's factor; where there is none, zeros. No votes.

        `are_there`: the gradients were put there by a `BucketedSum`.
        """
        for targets, sources, factor in self._scaled(flat, part)[are_there:]:
            write_scaled(targets, sources if factor else [None] * len(targets), factor)
        self._count(flat, part, loss)

    def add(self, flat: FlatBuffer, part: Pass, loss: torch.Tensor, are_there: bool = False) -> None:
        """Add the model's gradients, times the pass's factor; see `write`."""
        for targets, sources, factor in self._scaled(flat, part)[are_there:]:
            present = [pair for pair in zip(targets, sources, strict=True) if pair[1] is not None]
            if present and factor:
                torch._foreach_add_(*map(list, zip(*present, strict=True)), alpha=factor)
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
        num, divisor = len(self.parameters), share.divisor(word)
        had_gradient, moved, said = words[:num], words[num:-NUM_SAID], words[-NUM_SAID:]
        if divisor not in (0.0, 1.0):
            flat.all_gradients.div_(divisor)
            flat.loss.div_(divisor)
        copies: list[tuple[torch.Tensor, torch.Tensor]] = []
        gradients = zip(self.parameters, flat.gradients, flat.lent, had_gradient, strict=True)
        for parameter, part, lent, count in gradients:
            if not (divisor and count):
                parameter.grad = None  # a borrowed sample may have left one
            elif parameter.dtype == part.dtype and parameter.is_contiguous():
                parameter.grad = lent
            else:
                if parameter.grad is None or parameter.grad.is_conj():  # which has no real numbers of its own
                    parameter.grad = torch.empty_like(parameter)
                copies.append((local(parameter.grad.data), part))
        for tensor, part, count in zip(self._statistics.tensors, flat.statistics, moved, strict=True):
            if count:
                copies.append((tensor.data, part))  # a graph that the script still holds may go through it
        if copies:
            targets = [as_real(target) for target, _ in copies]
            torch._foreach_copy_(targets, [source for _, source in copies])
        return bool(divisor) and any(had_gradient), divisor, said

    def divide(self, flat: FlatBuffer, share: Share) -> tuple[bool, float, list[float]]:
        """As `read`, where the sums of all gradients are in the model and `flat` has only words."""
        _, word, *said = flat.words.tolist()
        divisor = share.divisor(word)
        gradients = [local(each.grad.data) for each in self.parameters if each.grad is not None]
        if not divisor:
            self.drop()
        elif divisor != 1.0:
            flat.loss.div_(divisor)
            if self._positions.num_parts > 1:  # else the only pass has no factor
                torch._foreach_div_(gradients, divisor)
        return bool(divisor) and bool(gradients), divisor, said

    def average_parts(self, flat: FlatBuffer) -> None:
        """Average over processes that have other samples what the script does not average by itself."""
        if self.is_averaged:
            return
        left: dict[tuple[int, ...], list[torch.Tensor]] = {}
        tensors = [*flat.gradients, *flat.statistics]
        for own, part, count in zip(self._left, tensors, flat.counts[1:].split(1), strict=True):
            left.setdefault(own, []).extend([part, count])  # one that has none gets that of the others
        for own, parts in left.items():
            self._positions.average(parts, own)

    def has_gradient(self) -> bool:
        return any(parameter.grad is not None for parameter in self.parameters)

    def drop(self) -> None:
        """Take the model's gradients away, so that the next pass does not add to them."""
        for parameter in self.parameters:
            parameter.grad = None

    def _scaled(
        self, flat: FlatBuffer, part: Pass
    ) -> list[tuple[list[torch.Tensor], list[torch.Tensor | None], float]]:
        """Parts of the buffer, the gradients or statistics for them, None without, and their factor."""
        gradients = [None if each.grad is None else local(each.grad.data) for each in self.parameters]
        for gradient in gradients:
            if gradient is not None and gradient.layout != torch.strided:
                raise TypeError(
                    "a gradient is sparse; swell.train sums dense gradients only: "
                    "build the embedding with sparse=False"
                )
        statistics: list[torch.Tensor | None] = [*self._statistics.tensors]
        if self._has_complex:
            gradients = [None if each is None else as_real(each) for each in gradients]
            statistics = [None if each is None else as_real(each) for each in statistics]
        scaled = [(flat.gradients, gradients, part.factor if self._positions.num_parts == 1 else 1.0)]
        if statistics:
            share = part.num_local * self._positions.num_parts / part.num_global
            scaled.append((flat.statistics, statistics, share))
        return scaled

    def _count(self, flat: FlatBuffer, part: Pass, loss: torch.Tensor) -> None:
        had_gradient, factor = [parameter.grad is not None for parameter in self.parameters], part.factor
        counts = [part.word, *had_gradient, *self._statistics.moved()]
        flat.counts.copy_(torch.tensor(counts, dtype=self.dtype))
        if factor == 0.0:
            flat.loss.zero_()
            return
        torch.mul(loss.to(flat.words.device, self.dtype), factor, out=flat.loss)


def write_scaled(targets: list[torch.Tensor], sources: list[torch.Tensor | None], weight: float) -> None:
    """Write the sources times `weight` to the targets, and zeros where there is none.

    That is one pass over the memory on a CPU, and few kernels on a GPU.
    """
    pairs = list(zip(targets, sources, strict=True))
    if others := [target for target, source in pairs if source is None]:
        torch._foreach_zero_(others)
    present = [(target, source) for target, source in pairs if source is not None]
    if present and targets[0].device.type != "cpu":
        written, read = map(list, zip(*present, strict=True))
        torch._foreach_copy_(written, read)
        torch._foreach_mul_(written, weight)
        return
    for target, source in present:
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


def to_words(number: torch.Tensor) -> torch.Tensor:
    """What a worker adds to the sum for its number, int64 of shape (): float64, shape (NUM_WORDS,)."""
    shifts = PIECE_BITS * torch.arange(NUM_PIECES, device=number.device)
    pieces = ((number >> shifts) & (2**PIECE_BITS - 1)).double()
    return torch.cat([pieces, pieces * pieces])


def is_same(sums: Sequence[float], num_workers: int) -> bool:
    """Whether all workers had the same number, by the sums over them."""
    for piece, square in zip(sums[:NUM_PIECES], sums[NUM_PIECES:], strict=True):
        if num_workers * square != piece * piece:
            return False
    return True

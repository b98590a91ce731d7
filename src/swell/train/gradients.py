"""One step's all-reduce: gradients, and in the same buffer what the workers tell each other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.modules.batchnorm import _NormBase

from swell.train.course import Share

#: In the tail: weighted loss, vote, stop. Then one number a parameter: on how many workers it has a gradient.
NUM_WORDS = 3


@dataclass(frozen=True, slots=True)
class Tally:
    """What all workers said in one step, summed."""

    loss: torch.Tensor  #: mean over the step's samples, () on the model's device
    num_votes: int  #: workers that have an order waiting
    is_stop: bool  #: somebody saw the end condition met


class Gradients:
    """Gradients of a model as one flat buffer: pack, sum over the workers, unpack."""

    def __init__(self, model: nn.Module) -> None:
        self._parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        # Running statistics of a batch norm differ between workers, for each saw its own samples:
        # their weighted mean is what one device would have, up to the scatter between the slices.
        self._statistics = [
            statistic
            for module in model.modules()
            if isinstance(module, _NormBase)
            for statistic in (module.running_mean, module.running_var)
            if statistic is not None
        ]
        self._flat: torch.Tensor | None = None
        self._views: list[torch.Tensor] = []

    @property
    def num_bytes(self) -> int:
        """Bytes of a step's all-reduce."""
        wide = any(parameter.dtype == torch.float64 for parameter in self._parameters)
        return self._numel() * (8 if wide else 4)

    def reduce(
        self,
        share: Share,
        loss: torch.Tensor,
        vote: bool,
        stop: bool,
        sum_all: Callable[[torch.Tensor], None],
    ) -> Tally:
        """Replace each gradient by its mean over all samples of the step.

        Args:
            loss: mean over this worker's samples.
            sum_all: sums a tensor over the workers in place; what it raises passes through, and then
                gradients are as they were.
        """
        flat = self._buffer()
        self._pack(flat, share, loss, vote, stop)
        sum_all(flat)
        num_parameters = len(self._parameters)
        tail = flat[-(NUM_WORDS + num_parameters) :].tolist()  # the step's only wait for a GPU
        self._unpack(tail[NUM_WORDS:])
        return Tally(flat[-(NUM_WORDS + num_parameters)].clone(), round(tail[1]), tail[2] > 0)

    def _numel(self) -> int:
        sizes = (tensor.numel() for tensor in (*self._parameters, *self._statistics))
        return sum(sizes) + NUM_WORDS + len(self._parameters)

    def _buffer(self) -> torch.Tensor:
        if self._flat is None:
            dtype = torch.float64 if self.num_bytes == 8 * self._numel() else torch.float32
            self._flat = torch.empty(self._numel(), dtype=dtype, device=self._parameters[0].device)
            start = 0
            for tensor in (*self._parameters, *self._statistics):
                self._views.append(self._flat[start : start + tensor.numel()].view(tensor.shape))
                start += tensor.numel()
        return self._flat

    @torch.no_grad()
    def _pack(self, flat: torch.Tensor, share: Share, loss: torch.Tensor, vote: bool, stop: bool) -> None:
        if share.num_local == 0:  # not `* 0`: a borrowed sample's inf would become nan
            flat.zero_()
            loss = torch.zeros(())
        else:
            self._copy_in()
            flat.mul_(share.weight_share)
        words = torch.tensor(
            [0.0, float(vote), float(stop), *(float(p.grad is not None) for p in self._parameters)],
            dtype=flat.dtype,
        )
        tail = flat[-len(words) :]
        tail.copy_(words)
        tail[0] = loss.to(flat.device, flat.dtype) * share.weight_share

    def _copy_in(self) -> None:
        sources, targets = [], []
        for parameter, view in zip(self._parameters, self._views, strict=False):
            if parameter.grad is None:
                view.zero_()
                continue
            if parameter.grad.layout != torch.strided:
                raise TypeError(
                    "a gradient is sparse; swell.train sums dense gradients only: "
                    "build the embedding with sparse=False"
                )
            sources.append(parameter.grad)
            targets.append(view)
        sources += self._statistics
        targets += self._views[len(self._parameters) :]
        torch._foreach_copy_(targets, sources)

    @torch.no_grad()
    def _unpack(self, num_workers_with_grad: list[float]) -> None:
        """A parameter that nobody has a gradient for keeps none: its optimizer leaves it alone."""
        targets: list[torch.Tensor] = []
        sources: list[torch.Tensor] = []
        for parameter, view, num_with_grad in zip(
            self._parameters, self._views, num_workers_with_grad, strict=False
        ):
            if num_with_grad == 0:
                continue
            if parameter.grad is None:
                parameter.grad = torch.empty_like(parameter)
            targets.append(parameter.grad)
            sources.append(view)
        targets += self._statistics
        sources += self._views[len(self._parameters) :]
        torch._foreach_copy_(targets, sources)

"""Running statistics of batch norms: one update a step, whatever number of passes it takes."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.modules.batchnorm import _NormBase


class StatisticsError(TypeError):
    """The model keeps something that would differ with the number of workers."""


class BatchNormStatistics:
    """Each pass of a step begins with what the step began with; the step ends with the mean over passes.

    Weighted with their samples, and over all workers: what one device would have, up to the scatter
    between the slices. Statistics that no pass moves, as in `eval` mode, are left alone.
    """

    def __init__(self, model: nn.Module) -> None:
        norms = [module for module in model.modules() if isinstance(module, _NormBase)]
        self._buffers = [list(norm.buffers(recurse=False)) for norm in norms]  # by norm
        all_of_them = [tensor for buffers in self._buffers for tensor in buffers]
        self.tensors = [tensor for tensor in all_of_them if tensor.is_floating_point()]  #: to be averaged
        counters = [tensor for tensor in all_of_them if not tensor.is_floating_point()]
        self._kinds = [kind for kind in (self.tensors, counters) if kind]  # one copy a kind: few for a GPU
        self._at_begin: list[list[torch.Tensor]] = []  # as `_kinds`
        self._versions: list[int] = []

    def begin(self) -> None:
        """A step begins."""
        if not self._at_begin:
            self._at_begin = [[torch.empty_like(tensor) for tensor in kind] for kind in self._kinds]
        self._copy(self._at_begin, self._kinds)

    def rewind(self) -> None:
        """Back to where the step began."""
        self._copy(self._kinds, self._at_begin)

    def moved(self) -> list[bool]:
        """Which of `tensors` the pass that is over has updated.

        A batch norm's update of its mean leaves no trace in the tensor's version, one of its counter does;
        with an instance norm it is the other way round.
        """
        versions = iter(self._versions)
        flags = []
        for buffers in self._buffers:
            has_moved = any([tensor._version != next(versions) for tensor in buffers])  # noqa: C419 - takes all
            flags += [has_moved for tensor in buffers if tensor.is_floating_point()]
        return flags

    @torch.no_grad()
    def _copy(self, targets: list[list[torch.Tensor]], sources: list[list[torch.Tensor]]) -> None:
        for target, source in zip(targets, sources, strict=True):
            torch._foreach_copy_(target, source)
        self._versions = [tensor._version for buffers in self._buffers for tensor in buffers]


class OtherBuffers:
    """Buffers that are no batch norm's: they are not averaged, so a pass should leave them alone."""

    def __init__(self, model: nn.Module) -> None:
        norms = [module for module in model.modules() if isinstance(module, _NormBase)]
        known = {id(tensor) for norm in norms for tensor in norm.buffers(recurse=False)}
        self._model = model
        self._noted = {
            name: (tensor, tensor._version)
            for name, tensor in model.named_buffers()
            if id(tensor) not in known
        }

    def check(self) -> None:
        """Raises StatisticsError if one has changed."""
        present = dict(self._model.named_buffers())
        for name, (tensor, version) in self._noted.items():
            if present.get(name) is not tensor or tensor._version != version:
                raise StatisticsError(
                    f"the model's buffer {name!r} changes in each pass, and a worker has as many of these as "
                    "its share has shards; deterministic=True averages the buffers of batch norms only: keep "
                    "this one as it is in training, or go without deterministic=True"
                )

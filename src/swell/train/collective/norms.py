"""Running statistics of batch norms: one update a step, whatever number of passes it takes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _NormBase

#: Of torch's batch and instance norms.
_NAMES = frozenset(f"{kind}Norm{dimensions}d" for kind in ("Batch", "Instance") for dimensions in (1, 2, 3))


class StatisticsError(TypeError):
    """The model keeps something that would differ with the number of workers."""


class BatchNormStatistics:
    """Each pass of a step begins with what the step began with; the step ends with the mean over passes.

    Weighted with their samples, and over all workers: what one device would have, up to the scatter
    between the slices. Statistics that no pass moves, as in `eval` mode, are left alone.
    """

    def __init__(self, model: nn.Module) -> None:
        norms = [module for module in model.modules() if _is_norm(module)]
        self._buffers = [list(norm.buffers(recurse=False)) for norm in norms]  # by norm
        all_of_them = [tensor for buffers in self._buffers for tensor in buffers]
        self.tensors = [tensor for tensor in all_of_them if _is_mean(tensor)]  #: to be averaged
        counters = [tensor for tensor in all_of_them if not _is_mean(tensor)]
        self._kinds = [kind for kind in (self.tensors, counters) if kind]  # one copy a kind: few for a GPU
        self._at_begin: list[list[torch.Tensor]] = []  # as `_kinds`
        self._versions: list[int] = []

    def begin(self) -> None:
        """A step begins."""
        if not self._at_begin:
            self._at_begin = [[torch.empty_like(tensor) for tensor in kind] for kind in self._kinds]
        if self._kinds:
            self._copy(self._at_begin, self._kinds)

    def rewind(self) -> None:
        """Back to where the step began."""
        if self._kinds:
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
            flags += [has_moved for tensor in buffers if _is_mean(tensor)]
        return flags

    @torch.no_grad()
    def _copy(self, targets: list[list[torch.Tensor]], sources: list[list[torch.Tensor]]) -> None:
        for target, source in zip(targets, sources, strict=True):
            torch._foreach_copy_([tensor.data for tensor in target], source)  # graphs may go through them
        self._versions = [tensor._version for buffers in self._buffers for tensor in buffers]


def _is_norm(module: nn.Module) -> bool:
    """Whether it is a batch or instance norm; a scripted one has the type of all scripted modules."""
    return isinstance(module, _NormBase) or getattr(module, "original_name", "") in _NAMES


def _is_mean(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def other_buffers(model: nn.Module) -> dict[str, torch.Tensor]:
    """Buffers that are no batch norm's, by their names: these are not averaged over the workers."""
    return {full_name: buffers[name] for full_name, buffers, name in _places_of_others(model)}


def _places_of_others(model: nn.Module) -> Iterator[tuple[str, Any, str]]:
    """Name of each of these buffers, and where its module has it: a dict, or like one if it is scripted."""
    for prefix, module in model.named_modules():
        if _is_norm(module):
            continue
        for name, _ in module.named_buffers(recurse=False, remove_duplicate=False):
            yield f"{prefix}.{name}" if prefix else name, module._buffers, name


class StepBuffers:
    """Buffers that are no batch norm's: each pass of a step begins with what the step began with.

    They are not averaged, so what a pass makes of them should not depend on its samples, as the vectors of a
    spectral norm do not. Then a step changes them once, in however many passes and attempts.
    """

    def __init__(self, model: nn.Module) -> None:
        self._places = [(buffers, name) for _, buffers, name in _places_of_others(model)]
        #: (buffer, its version, a copy) when the step began
        self._noted: list[tuple[torch.Tensor, int, torch.Tensor] | None] = [None for _ in self._places]

    def changed(self) -> str | None:
        """The name of one that is another one, or has other numbers, than when the step began."""
        for (buffers, name), noted in zip(self._places, self._noted, strict=True):
            if noted is not None and (
                name not in buffers or buffers[name] is not noted[0] or noted[0]._version != noted[1]
            ):
                return name
        return None

    def begin(self) -> None:
        """A step begins."""
        for number, (buffers, name) in enumerate(self._places):
            if name not in buffers or buffers[name] is None:
                self._noted[number] = None
                continue
            tensor, noted = buffers[name], self._noted[number]
            if noted is None or tensor is not noted[0] or tensor._version != noted[1]:
                self._noted[number] = (tensor, tensor._version, tensor.detach().clone())

    @torch.no_grad()
    def rewind(self) -> None:
        """Back to where the step began."""
        for number, (buffers, name) in enumerate(self._places):
            if (noted := self._noted[number]) is None:
                continue
            tensor, version, copy = noted
            buffers[name] = tensor
            if tensor._version != version:
                tensor.copy_(copy)
                self._noted[number] = (tensor, tensor._version, copy)

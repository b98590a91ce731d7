"""The state before a batch of several steps, until the batch counts.

A worker may be lost between two steps of one batch. Then the others go back to where the batch began and
do all of it again, so that no step of it is applied twice and none uses what a later one has changed.
"""

from __future__ import annotations

import copy
from typing import Any

import torch

from swell.train.state.train_state import TrainState


class BatchUndo:
    """Copies of what the steps of a batch change: buffers at its beginning, the rest before its change."""

    def __init__(self, state: TrainState) -> None:
        self._state = state
        self._buffers: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._parameters: dict[torch.Tensor, torch.Tensor] = {}
        self._kept: dict[int, tuple[torch.optim.Optimizer, dict[Any, Any], list[dict[str, Any]]]] = {}
        self._scaler: dict[str, Any] | None = None

    @torch.no_grad()
    def begin(self) -> None:
        """A batch begins: nothing of it has changed anything."""
        self._buffers = [(buffer, buffer.clone()) for buffer in self._state.model.buffers()]
        self._kept.clear()
        self._parameters.clear()
        self._scaler = None

    @torch.no_grad()
    def keep(self, optimizer: torch.optim.Optimizer) -> None:
        """Copy what this optimizer is about to change, unless it was copied in this batch."""
        if id(optimizer) in self._kept:
            return
        if not self._kept and self._state.scaler is not None:
            self._scaler = self._state.scaler.state_dict()
        held = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        for parameter in held:
            if parameter not in self._parameters:
                self._parameters[parameter] = parameter.detach().clone()
        slots = {
            parameter: _copied(optimizer.state[parameter])
            for parameter in held
            if parameter in optimizer.state
        }
        groups = [
            {key: _copied(group[key]) for key in group if key != "params"} for group in optimizer.param_groups
        ]
        self._kept[id(optimizer)] = optimizer, slots, groups

    @torch.no_grad()
    def revert(self) -> None:
        """All is as it was before the batch. A graph that the script still holds stays usable."""
        for tensor, before in (*self._buffers, *self._parameters.items()):
            tensor.data.copy_(before)
        for optimizer, slots, groups in self._kept.values():
            for parameter in [held for held in optimizer.state if held in self._parameters]:
                del optimizer.state[parameter]
            optimizer.state.update(slots)
            for group, before_it in zip(optimizer.param_groups, groups, strict=False):
                group.update(before_it)
        if self._kept and self._scaler and self._state.scaler is not None:
            if self._state.is_within_batch:
                self._state.scaler.update()  # forgets which optimizers it has unscaled
            self._state.scaler.load_state_dict(self._scaler)
        self._kept.clear()


def _copied(value: Any) -> Any:
    return copy.deepcopy(value)

"""Parameter groups that a script adds to its optimizers while it trains, as one that unfreezes layers does.

A worker that joins begins with the script's first lines, so the groups come to it with the state. Its script
may then add one of them again, at the head of the epoch that it joins in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import nn

#: Places of the parameters of each added group, among the model's.
Places = list[list[int]]


class AddedGroups:
    """What each optimizer has got beyond the groups that it began with."""

    def __init__(self, model: nn.Module, optimizers: Sequence[torch.optim.Optimizer]) -> None:
        self._model, self._optimizers = model, optimizers
        self._own = {id(parameter) for parameter in model.parameters()}
        self._num_own = [len(optimizer.param_groups) for optimizer in optimizers]
        for number, optimizer in enumerate(optimizers):
            adds = partial(self._add, number, optimizer.add_param_group)
            optimizer.add_param_group = adds  # type: ignore[method-assign]

    def places(self) -> list[Places]:
        """The groups that each optimizer has got."""
        place_of = {id(parameter): place for place, parameter in enumerate(self._model.parameters())}
        return [
            [[place_of[id(parameter)] for parameter in group["params"]] for group in self._added(number)]
            for number in range(len(self._optimizers))
        ]

    def restore(self, places: Sequence[Places]) -> None:
        """Add those groups that are not there; the optimizer's state has their hyperparameters."""
        parameters = list(self._model.parameters())
        for number, groups in enumerate(places):
            for group in groups[len(self._added(number)) :]:
                self._optimizers[number].add_param_group({"params": [parameters[place] for place in group]})

    def _added(self, number: int) -> list[dict[str, Any]]:
        return self._optimizers[number].param_groups[self._num_own[number] :]

    def _add(self, number: int, add: Callable[[dict[str, Any]], None], group: dict[str, Any]) -> None:
        """Do what `add_param_group` does, unless the group is there already."""
        given = group["params"]
        members = [given] if isinstance(given, torch.Tensor) else list(given)
        parameters = [member[1] if isinstance(member, tuple) else member for member in members]
        if not all(id(parameter) in self._own for parameter in parameters):
            raise ValueError(
                "add_param_group() got parameters that elastic() did not get with the model: their gradients "
                "would not be averaged, and a worker that joins would not have them. Make all modules before "
                "elastic(), and train them when it is time: by add_param_group() or requires_grad_()"
            )
        added = [[id(member) for member in known["params"]] for known in self._added(number)]
        if [id(parameter) for parameter in parameters] not in added:
            add({**group, "params": members})

"""Several optimizers of one job by their names, which all but their steps treat as one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import nn

from swell.train.collective.gradients import LoopError
from swell.train.data.stateful import Stateful


class OptimizerSet:
    """Optimizers by name: `elastic(model, {"g": opt_g, "d": opt_d}, loader)`."""

    def __init__(self, named: Mapping[str, torch.optim.Optimizer]) -> None:
        self.named = dict(named)

    def __iter__(self) -> Iterator[torch.optim.Optimizer]:
        return iter(self.named.values())

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """The parameter groups of all, in the order of the names."""
        return [group for optimizer in self for group in optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        return {name: optimizer.state_dict() for name, optimizer in self.named.items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Raises RuntimeError: the state is of other optimizers."""
        if state.keys() != self.named.keys():
            theirs = "one optimizer" if "param_groups" in state else f"the optimizers {', '.join(state)}"
            raise RuntimeError(
                f"the state is of {theirs}, and this script gave elastic() the optimizers "
                f"{', '.join(self.named)}; run the script that wrote the state, or start the job again"
            )
        for name, optimizer in self.named.items():
            optimizer.load_state_dict(state[name])

    def check(self, optimizer: object) -> torch.optim.Optimizer:
        """One of the set. Raises LoopError if it is another one, or none."""
        for known in self:
            if known is optimizer:
                return known
        names = ", ".join(self.named)
        given = (
            "no optimizer" if optimizer is None else f"a {type(optimizer).__qualname__} that it does not know"
        )
        raise LoopError(
            f"run.step() got {given}; elastic() has the optimizers {names}: call "
            "run.step(optimizer) with one of these"
        )


class SchedulerSet:
    """Schedulers by the names of their optimizers: each is stepped once a batch."""

    def __init__(self, named: Mapping[str, Stateful], optimizers: OptimizerSet) -> None:
        strange = sorted(named.keys() - optimizers.named.keys())
        if strange:
            raise ValueError(
                f"elastic() got a scheduler for {strange[0]!r}, and has no optimizer of that name; the names "
                f"are {', '.join(optimizers.named)}"
            )
        self.named = dict(named)

    def step(self) -> None:
        for scheduler in self.named.values():
            scheduler.step()  # type: ignore[attr-defined]  # every scheduler of torch has it

    def state_dict(self) -> dict[str, Any]:
        return {name: scheduler.state_dict() for name, scheduler in self.named.items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name, scheduler in self.named.items():
            scheduler.load_state_dict(state[name])


def join_modules(models: Mapping[str, nn.Module]) -> nn.ModuleDict:
    """One module of several. Raises ValueError for a name that cannot be one of a module's."""
    joined = nn.ModuleDict()
    for name, model in models.items():
        try:
            joined[name] = getattr(model, "_orig_mod", model)  # what torch.compile wraps
        except (KeyError, TypeError) as error:
            raise ValueError(f"elastic() got a model named {name!r}: {error}; take another name") from error
    return joined

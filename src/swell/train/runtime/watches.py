"""Optimizers that a script uses in place of what it gave to `elastic` are refused.

Of optimizers that the script steps itself the gradients are not summed: torch calls a hook before each step
of any optimizer. One that trains what a batch has made for itself, such as the perturbation of an adversarial
example, is left alone. Those that it makes for the model after `elastic`, `run.step` would not step.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from functools import cache, wraps
from typing import Any
from weakref import WeakKeyDictionary

import torch

from swell.train.collective.gradients import LoopError
from swell.train.link.code_paths import place_of
from swell.train.state.train_state import TrainState

GIVE_ALL = (
    "give elastic() all optimizers that the loop uses by name, elastic(model, {'first': ..., 'second': ...}, "
    "loader), and say in run.step(optimizer) which is to step"
)
_watches: list[OptimizerWatch] = []  # of runs under way


class OptimizerWatch:
    """Optimizers that step in the loop over batches and are not `elastic`'s."""

    def __init__(self, state: TrainState) -> None:
        self._state = state
        #: Those that hold parameters of the model and were made after `elastic`, and where.
        self._made: WeakKeyDictionary[torch.optim.Optimizer, str] = WeakKeyDictionary()
        self.has_made = False  #: there may be such ones
        _watches.append(self)
        _watch_makers()
        self._seen: WeakKeyDictionary[torch.optim.Optimizer, int] = WeakKeyDictionary()  # in which update

    def check(self, optimizer: torch.optim.Optimizer, is_averaged: bool) -> None:
        """Another optimizer than `elastic`'s is about to step.

        Args:
            is_averaged: the model's gradients are those of all workers.

        Raises:
            LoopError: it would use gradients of this worker alone.
        """
        trained = {id(parameter) for parameter in self._state.model.parameters()}
        held = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
        is_known = any(optimizer is thing for thing in self._state.objects.values())
        if is_known and trained >= held:
            if is_averaged:
                return
            raise LoopError(
                f"{_named(optimizer)} is in elastic(state=...) and steps before the gradients are averaged; "
                f"step it after run.step(), under `if run.has_stepped:`, or {GIVE_ALL}"
            )
        updates = self._state.updates
        has_lasted = self._seen.setdefault(optimizer, updates) != updates
        if is_known or has_lasted or trained & held:
            raise LoopError(
                f"{_named(optimizer)} steps in the loop over run.batches() with gradients of this worker "
                f"alone; {GIVE_ALL}"
            )

    def close(self) -> None:
        """The run is over: the script may train the model by itself."""
        _watches.remove(self)

    def note_made(self, optimizer: torch.optim.Optimizer) -> None:
        trained = {id(parameter) for parameter in self._state.model.parameters()}
        if any(id(parameter) in trained for group in optimizer.param_groups for parameter in group["params"]):
            self._made[optimizer], self.has_made = place_of(sys._getframe(2)), True

    def check_made(self) -> None:
        """The script calls `run.step`, and has made an optimizer for the model since it called `elastic`.

        Raises:
            LoopError: it has it still, and did not give it to `run.state`.
        """
        gc.collect()  # it may have thrown it away
        kept = self._state.objects.held()
        for optimizer, place in list(self._made.items()):
            if any(optimizer is thing for thing in kept):
                del self._made[optimizer]
                continue
            raise LoopError(
                f"{_named(optimizer)} was made after elastic(), at {place}, and run.step() steps the one "
                "that elastic() got; to begin with new moments call its state.clear(), to change a rate set "
                "param_groups[0]['lr']; to go over to another optimizer make both before elastic() and "
                f"{GIVE_ALL}"
            )
        self.has_made = False


@cache
def _watch_makers() -> None:
    make: Callable[..., None] = torch.optim.Optimizer.__init__

    @wraps(make)
    def note(optimizer: torch.optim.Optimizer, *args: Any, **options: Any) -> None:
        make(optimizer, *args, **options)
        for watch in _watches:
            watch.note_made(optimizer)

    torch.optim.Optimizer.__init__ = note  # type: ignore[method-assign, assignment]


def _named(optimizer: torch.optim.Optimizer) -> str:
    return f"an optimizer ({type(optimizer).__qualname__})"

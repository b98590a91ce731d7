"""Puts back what a step has changed, if the step does not count and is to be repeated.

A worker may be lost in a step, and with several optimizers between two updates of one. Then the others go
back to where the step began and do all of it again, so that no update is applied twice.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from types import FrameType
from typing import Any

import torch

from swell.train.collective.pieces import local, reshard


class StepUndo:
    """Notes little as each step begins. The rest is copied before it changes, or once the step is lost."""

    def __init__(self, state: Any) -> None:
        """`state`: a `TrainState`, whose module imports this one."""
        self._state = state
        self._hyperparameters: list[dict[str, Any]] = []  # as the step began
        self._modes = ""  # of modules, as the step was lost
        self._tensors: dict[torch.Tensor, torch.Tensor] = {}  # parameters and buffers, with copies
        self._kept: list[tuple[torch.optim.Optimizer, dict[Any, Any]]] = []  # with what each keeps
        self._scaler: dict[str, Any] | None = None
        self.is_lost = False  #: the step comes again
        #: Called when what the script has done since the step began is about to be undone.
        self.before_revert: Callable[[FrameType | None], object] = lambda frame: None

    @property
    def has_begun(self) -> bool:
        """Whether this process has begun a step."""
        return bool(self._hyperparameters)

    def begin(self, frame: FrameType | None = None) -> None:
        """The script gets the first batch of a step.

        Args:
            frame: the script's function that waits for it.
        """
        self._state.objects.begin_step()
        self._state.variables.begin_step(frame)
        self._hyperparameters = self._state.hyperparameters()
        self._scaler = None

    @torch.no_grad()
    def keep_all(self) -> None:
        """Copy all that updates change: the step has several, and may be lost between two of them."""
        state = self._state
        reshard(state.model)
        self._forget()  # before the next copies are made: a GPU may have no room for both
        held = (*state.model.parameters(), *state.model.buffers())
        self._tensors = {tensor: local(tensor).detach().clone() for tensor in held}
        self._kept = [
            (optimizer, {each: copy.deepcopy(slots) for each, slots in optimizer.state.items()})
            for optimizer in state.optimizers
        ]
        self.keep_scaler()

    def keep_scaler(self) -> None:
        """Copy what a scaler has, which the script's loop may show only amid its first batch."""
        self._scaler = None if self._state.scaler is None else self._state.scaler.state_dict()

    def lose(self, frame: FrameType | None) -> None:
        """The step under way comes again: what the script does until then is to count for nothing.

        Objects with a state of their own are updated after a step as a rule, and are copied now for that.

        Args:
            frame: the script's function that makes the step, or waits for it.
        """
        self.is_lost = True
        self._state.objects.keep_objects()
        self._state.variables.keep_objects(frame)
        self._modes = self._state.forms.modes()
        if self._scaler is None:
            self.keep_scaler()
        reshard(self._state.model)
        for parameter in self._state.model.parameters():
            if parameter not in self._tensors:
                self._tensors[parameter] = local(parameter).detach().to("cpu", copy=True)

    def catch_up(self, frame: FrameType | None) -> None:
        """Another worker's state has come, and has what its script does between two epochs.

        This worker's script comes to that only now, and may do there what it will with what it trains.
        """
        self.begin(frame)
        self.keep_all()
        self.lose(frame)

    @torch.no_grad()
    def revert(self, frame: FrameType | None = None) -> None:
        """Have all be as it was when the step began. A graph that the script still holds stays usable."""
        state, self.is_lost = self._state, False
        self.before_revert(frame)
        state.objects.rewind()
        state.variables.rewind(frame)
        for tensor, before in self._tensors.items():
            local(tensor).data.copy_(before)
        for optimizer, slots in self._kept:
            optimizer.state.clear()
            optimizer.state.update(slots)
        state.put_settings((self._hyperparameters, self._modes))
        state.forget_batch()
        if self._scaler and state.scaler is not None:
            state.scaler.load_state_dict(self._scaler)
        self._scaler = None
        self._modes = ""
        self._forget()

    def _forget(self) -> None:
        self._tensors.clear()
        self._kept.clear()

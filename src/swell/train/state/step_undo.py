"""Puts back what a step has changed, if the step does not count and is to be repeated.

A worker may be lost in a step, and with several optimizers between two updates of one. Then the others go
back to where the step began and do all of it again, so that no update is applied twice.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from types import FrameType
from typing import Any, Protocol

import torch
from torch import nn

from swell.train.state.module_forms import ModuleForms
from swell.train.state.script_state import ScriptState
from swell.train.state.script_variables import ScriptVariables


class Undone(Protocol):
    """What a step changes, as `TrainState` has it."""

    model: nn.Module
    scaler: torch.amp.GradScaler | None
    shard: Any  # whose optimizer keeps nothing here
    objects: ScriptState
    variables: ScriptVariables
    forms: ModuleForms
    is_within_batch: bool

    @property
    def optimizers(self) -> list[torch.optim.Optimizer]: ...

    def hyperparameters(self) -> list[dict[str, Any]]: ...

    def put_settings(self, settings: tuple[list[dict[str, Any]], str]) -> None: ...

    def parameters_here(self) -> list[nn.Parameter]: ...


class StepUndo:
    """Notes little as each step begins. The rest is copied before it changes, or once the step is lost."""

    def __init__(self, state: Undone) -> None:
        self._state = state
        self._hyperparameters: list[dict[str, Any]] = []  # as the step began
        self._modes = ""  # of modules, as the step was lost
        self._buffers: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._parameters: dict[torch.Tensor, torch.Tensor] = {}
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

    @torch.no_grad()
    def begin_batch(self) -> None:
        """The step has several updates, each of which may be taken back: see `keep`."""
        self._buffers = [(buffer, buffer.clone()) for buffer in self._state.model.buffers()]
        self._parameters.clear()
        self._kept.clear()
        self._scaler = None

    @torch.no_grad()
    def keep(self, optimizer: torch.optim.Optimizer) -> None:
        """Copy what this optimizer is about to change, unless it was copied in this step."""
        if any(optimizer is kept for kept, _ in self._kept):
            return
        if not self._kept and self._state.scaler is not None:
            self._scaler = self._state.scaler.state_dict()
        held = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        for parameter in held:
            if parameter not in self._parameters:
                self._parameters[parameter] = parameter.detach().clone()
        slots = {each: copy.deepcopy(optimizer.state[each]) for each in held if each in optimizer.state}
        self._kept.append((optimizer, slots))

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
        for parameter in self._state.parameters_here():
            if parameter not in self._parameters:
                self._parameters[parameter] = parameter.detach().to("cpu", copy=True)

    def catch_up(self, frame: FrameType | None) -> None:
        """Another worker's state has come, and has what its script does between two epochs.

        This worker's script comes to that only now, and may do there what it will with what it trains.
        """
        self.begin(frame)
        self.begin_batch()
        for optimizer in self._state.optimizers if self._state.shard is None else ():
            self.keep(optimizer)
        self.lose(frame)

    @torch.no_grad()
    def revert(self, frame: FrameType | None = None) -> None:
        """Have all be as it was when the step began. A graph that the script still holds stays usable."""
        state, self.is_lost = self._state, False
        self.before_revert(frame)
        state.objects.rewind()
        state.variables.rewind(frame)
        for tensor, before in (*self._buffers, *self._parameters.items()):
            tensor.data.copy_(before)
        for optimizer, slots in self._kept:
            for parameter in [held for held in optimizer.state if held in self._parameters]:
                del optimizer.state[parameter]
            optimizer.state.update(slots)
        state.put_settings((self._hyperparameters, self._modes))
        if self._kept and self._scaler and state.scaler is not None:
            if state.is_within_batch:
                state.scaler.update()  # forgets which optimizers it has unscaled
            state.scaler.load_state_dict(self._scaler)
        self._modes, self._buffers = "", []
        self._parameters.clear()
        self._kept.clear()

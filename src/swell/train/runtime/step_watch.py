"""What a script's step calls: losses, other loaders, norms in training mode, lower precision."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from types import CodeType, FrameType
from typing import Any

import torch
from torch._C._functorch import is_functorch_wrapped_tensor
from torch.amp.autocast_mode import autocast
from torch.nn import functional
from torch.utils.data import dataloader

from swell.train.link.code_paths import place_of
from swell.train.runtime.left_divisor import LeftDivisor, left_divisor
from swell.train.runtime.script_frames import is_feeding

_LOWER = (torch.bfloat16, torch.float16)


@dataclass
class CallsSeen:
    """What was called in one step; places are FILE:LINE of the script, empty for what was not called."""

    loader: str = ""  #: another one than that of the loop
    loss: str = ""  #: the last of the losses
    sum_loss: str = ""
    weighted_loss: str = ""  #: with class weights
    weights: str = ""  #: what weights its samples
    norm: str = ""  #: batch statistics are used
    is_lower: bool = False  #: in half precision
    num_backwards: int = 0
    divisor: LeftDivisor | None = None  #: of the loss, in the function that calls the backward pass


class StepWatch:
    """Notes calls by their code, however the script has imported the functions. It slows Python down."""

    def __init__(self) -> None:
        self.seen = CallsSeen()
        self._before: Any = None
        self._is_on = False

    def start(self) -> None:
        """Begin a step: `seen` is what is called in it."""
        self.seen = CallsSeen()
        self._handlers = _handlers()
        if not self._is_on:
            self._before, self._is_on = sys.getprofile(), True
            sys.setprofile(self._note)

    def stop(self) -> None:
        if self._is_on:
            sys.setprofile(self._before)
            self._is_on = False

    def _note(self, frame: FrameType, event: str, argument: object) -> None:
        if event != "call":
            return
        if frame.f_code is _BACKWARD and frame.f_back is not None:
            self.seen.num_backwards += 1
            if self.seen.num_backwards == 1:
                self.seen.divisor = left_divisor(frame.f_back)
        handler = self._handlers.get(frame.f_code)
        if handler is not None and not is_feeding(frame.f_back):
            handler(self.seen, frame.f_locals, place_of(frame.f_back))


_BACKWARD = inspect.unwrap(torch.Tensor.backward).__code__
_Handler = Callable[[CallsSeen, Mapping[str, Any], str], None]


def _note_loader(seen: CallsSeen, given: Mapping[str, Any], place: str) -> None:
    seen.loader = place


def _note_norm(seen: CallsSeen, given: Mapping[str, Any], place: str) -> None:
    if given["training"]:
        seen.norm = place


def _note_precision(seen: CallsSeen, given: Mapping[str, Any], place: str) -> None:
    seen.is_lower |= given["self"].fast_dtype in _LOWER


def _note_loss(seen: CallsSeen, given: Mapping[str, Any], place: str) -> None:
    if not torch.is_grad_enabled():
        return
    seen.loss = place
    if given.get("reduction") == "sum":
        seen.sum_loss = place
    if given.get("reduction") == "mean" and given.get("weight") is not None:
        seen.weighted_loss, seen.weights = place, "class weights"
    elif given.get("reduction") == "mean" and _ignores(given):
        seen.weighted_loss, seen.weights = place, f"ignore_index={given['ignore_index']}"


def _ignores(given: Mapping[str, Any]) -> bool:
    target = given.get("target")
    if "ignore_index" not in given or not isinstance(target, torch.Tensor) or target.is_floating_point():
        return False
    if is_functorch_wrapped_tensor(target):
        return False  # within vmap its values cannot be read
    return bool((target == given["ignore_index"]).any())


@cache
def _handlers() -> dict[CodeType, _Handler]:
    handlers: dict[CodeType, _Handler] = {
        _code(dataloader._BaseDataLoaderIter.__next__): _note_loader,
        _code(functional.batch_norm): _note_norm,
        _code(autocast.__enter__): _note_precision,
    }
    for function in vars(functional).values():
        if inspect.isfunction(function) and "reduction" in _code(function).co_varnames:
            handlers[_code(function)] = _note_loss
    return handlers


def _code(function: Any) -> CodeType:
    code: CodeType = inspect.unwrap(function).__code__
    return code

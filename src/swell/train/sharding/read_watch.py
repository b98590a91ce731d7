"""A watch for uses of a divided block's parameters while the block does not compute.

Where a job has several workers the parameters are not there then, and a script that averages weights, say,
would average numbers that are none. A trial run, in which they are there, finds such a script and says so.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from types import FrameType
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode, _get_current_function_mode

from swell.train.collective.gradients import LoopError
from swell.train.sharding.divided_block import DividedBlock

TORCH = os.path.dirname(torch.__file__ or "")
TRAIN = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
STATE = os.path.join(TRAIN, "state")  # what calls the optimizer
#: Attributes that are views of the elements, and of no other attribute can be said that it reads them.
VIEWS = {"data", "T", "mT", "H", "mH", "real", "imag"}
#: What can be asked of a parameter that is away.
QUESTIONS = {
    *("numel", "nelement", "size", "dim", "ndimension", "stride", "storage_offset", "element_size"),
    *("is_contiguous", "is_floating_point", "is_complex", "is_signed", "is_inference", "get_device"),
    *("data_ptr", "untyped_storage", "requires_grad_", "register_hook", "__hash__"),
    *("register_post_accumulate_grad_hook", "ones_like", "zeros_like", "empty_like", "full_like"),
    *("rand_like", "randn_like", "randint_like", "new_zeros", "new_ones", "new_empty", "new_full"),
}

#: Methods that change their tensor, and whose names do not say so.
AUGMENTED = {
    *("__setitem__", "__iadd__", "__isub__", "__imul__", "__itruediv__", "__ifloordiv__", "__imod__"),
    *("__ipow__", "__iand__", "__ior__", "__ixor__", "__ilshift__", "__irshift__"),
}


class ReadWatch(TorchFunctionMode):
    """Looks at each of torch's functions that the script calls, from `open` to `close`."""

    def __init__(self, model: nn.Module, blocks: Sequence[DividedBlock]) -> None:
        super().__init__()
        names = {id(parameter): name for name, parameter in model.named_parameters()}
        self._blocks = {
            id(parameter): (names[id(parameter)], block) for block in blocks for parameter in block.parameters
        }
        self._is_open = False

    def open(self) -> None:
        if not self._is_open and self._blocks:
            self._is_open = True
            self._tell(True)
            self.__enter__()  # type: ignore[no-untyped-call]

    def close(self) -> None:
        """Look at no more, unless the script is within a mode of its own."""
        if self._is_open and _get_current_function_mode() is self:
            self._is_open = False
            self._tell(False)
            self.__exit__(None, None, None)

    def _tell(self, is_tried: bool) -> None:
        for _, block in self._blocks.values():
            block.is_tried = is_tried

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Raises LoopError for a read of what will not be there."""
        kwargs = kwargs or {}
        if self._is_open:
            written = _written_by(function, args, kwargs)
            self._check(written, ParameterUse.WRITE)
            if (use := _use_of(function)) is not None:
                self._check(_others([*args, *kwargs.values()], written), use)
        return function(*args, **kwargs)

    def _check(self, tensors: Iterable[torch.Tensor], use: ParameterUse) -> None:
        for tensor in tensors:
            name, block = self._blocks.get(id(tensor), ("", None))
            if block is None or (block.is_computing and use is not ParameterUse.WRITE):
                continue
            is_meant = _is_by_script()
            if use is ParameterUse.GRADIENT:
                is_meant = block.has_own_gradient and _is_in_script()
            if is_meant:
                raise LoopError(use.value.format(name=name, block=block.name))


class ParameterUse(Enum):
    """What a script does with a parameter, and what it is told."""

    READ = (
        "the script reads the parameter {name!r} while the block {block!r} does not compute; with several "
        "workers it is not there then, for elastic() got shard=[...]: take out what reads it, such as an "
        "average of weights or a norm for a log, call the block as a module, or use shard='optimizer'"
    )
    WRITE = (
        "the script writes to the parameter {name!r} of the block {block!r}; with several workers that would "
        "be lost, for elastic() got shard=[...]: load or initialise weights before elastic(), or use "
        "shard='optimizer'"
    )
    GRADIENT = (
        "the script reads or sets the gradient of {name!r} between loss.backward() and run.step; with "
        "several workers that of the block {block!r} is summed by then, and not there, for elastic() got "
        "shard=[...]: use the norm that torch.nn.utils.clip_grad_norm_ returns, set requires_grad before "
        "`for batch in run.batches():`, or use shard='optimizer'"
    )


def _written_by(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> list[torch.Tensor]:
    """The tensors whose elements one of torch's functions changes."""
    name = getattr(function, "__name__", "")
    if name in QUESTIONS:
        return []
    is_in_place = name.endswith("_") and not name.endswith("__")
    is_assigned = name in ("__set__", "__delete__") and _attribute_of(function) in VIEWS
    changes = is_in_place or is_assigned or name in AUGMENTED
    return list(_tensors([*(args[:1] if changes else ()), kwargs.get("out")]))


def _use_of(function: Callable[..., Any]) -> ParameterUse | None:
    """What a function does with parameters that it does not change; None: nothing that they lack."""
    name = getattr(function, "__name__", "")
    if name in ("__get__", "__set__", "__delete__"):
        attribute = _attribute_of(function)
        if attribute == "grad":
            return ParameterUse.GRADIENT
        return ParameterUse.READ if name == "__get__" and attribute in VIEWS else None
    return None if name in QUESTIONS else ParameterUse.READ


def _attribute_of(function: Callable[..., Any]) -> str:
    """The name of the attribute of tensors that is got or set."""
    return getattr(getattr(function, "__self__", None), "__name__", "")


def _is_in_script() -> bool:
    """Whether the script itself calls, or a library other than torch, and neither torch nor Swell for it."""
    frame = sys._getframe(3)
    return not frame.f_code.co_filename.startswith((TORCH, TRAIN))


def _is_by_script() -> bool:
    """Whether the script reads, and neither Swell nor the optimizer for Swell."""
    frame: FrameType | None = sys._getframe(3)
    is_by_script = False
    while frame is not None:
        folder = os.path.dirname(frame.f_code.co_filename)
        if folder == STATE or (folder.startswith(TRAIN) and not is_by_script):
            return False
        is_by_script |= not folder.startswith(TORCH)
        frame = frame.f_back
    return is_by_script


def _others(things: Iterable[Any], written: Iterable[torch.Tensor]) -> Iterator[torch.Tensor]:
    ids = set(map(id, written))
    return (tensor for tensor in _tensors(things) if id(tensor) not in ids)


def _tensors(things: Iterable[Any]) -> Iterator[torch.Tensor]:
    """Tensors among arguments, and in lists of these."""
    for thing in things:
        if isinstance(thing, torch.Tensor):
            yield thing
        elif isinstance(thing, list | tuple):
            yield from _tensors(thing)

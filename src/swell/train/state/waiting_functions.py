"""The script's functions that wait for a batch, and their locals, which can be read and set."""

from __future__ import annotations

import ctypes
import dis
import inspect
import sys
from collections.abc import Iterable, Iterator
from functools import lru_cache
from types import CodeType, FrameType
from typing import Any

import torch

from swell.wire.library_paths import is_library

#: In place of the value of a local that has none.
UNBOUND = object()
#: How a module's own lines are called where functions are.
MODULE = "<module>"
#: Instructions at a loop's head that take apart and store what comes next.
_STORING = ("STORE_", "UNPACK_", "SWAP", "CACHE", "EXTENDED_ARG", "NOP")


class WaitingFunction:
    """A function of the script that is under way, known by its name from one call of it to the next."""

    __slots__ = ("coming", "frame")

    def __init__(self) -> None:
        self.frame: FrameType | None = None  #: of the call that is under way; None: none is known
        self.coming: frozenset[str] = frozenset()  #: what it sets next, where it has waited last

    def note_place(self) -> None:
        """It stands where it waits."""
        if self.frame is not None:
            self.coming = next_names(self.frame)

    def has(self, name: str) -> bool:
        """Whether the call under way has a local of this name, which may be unbound."""
        if self.frame is None:
            return False
        code = self.frame.f_code
        return name in (*code.co_varnames, *code.co_cellvars, *code.co_freevars)

    def set(self, name: str, value: Any) -> None:
        """Give a local another value; no effect if no call is under way."""
        if self.frame is None:
            return
        shown = self.frame.f_locals
        shown[name] = value
        if sys.version_info < (3, 13):
            ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(self.frame), ctypes.c_int(0))
            _let_go(self.frame, shown)


def locals_in(frame: FrameType) -> dict[str, Any]:
    """Return the locals of a function by their names."""
    shown = frame.f_locals
    found = dict(shown)
    if sys.version_info < (3, 13):
        _let_go(frame, shown)
    return found


def _let_go(frame: FrameType, shown: dict[str, Any]) -> None:
    """Have a frame not keep tensors in memory because their names were looked at."""
    if frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        for name in [name for name, value in shown.items() if isinstance(value, torch.Tensor)]:
            del shown[name]


def user_frames(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield the functions of the script that have called each other, the innermost first."""
    while frame is not None:
        if not is_library(frame.f_code.co_filename):
            yield frame
        frame = frame.f_back


def labelled(frames: Iterable[FrameType]) -> Iterator[tuple[str, FrameType]]:
    """Yield frames with names as `fit()`, which two calls under way do not share."""
    nums: dict[str, int] = {}
    for frame in frames:
        name = frame.f_code.co_name
        nums[name] = nums.get(name, 0) + 1
        call = MODULE if name == MODULE else f"{name}()"
        yield call if nums[name] == 1 else f"{call}{nums[name]}", frame


def next_names(frame: FrameType) -> frozenset[str]:
    """Return what the loop at which a function stands sets next."""
    return _stored_after(frame.f_code, frame.f_lasti)


@lru_cache(maxsize=64)
def _stored_after(code: CodeType, offset: int) -> frozenset[str]:
    names: set[str] = set()
    for step in dis.get_instructions(code):
        if step.offset <= offset:
            continue
        if not step.opname.startswith(_STORING):
            break
        if step.opname.startswith("STORE_"):
            names |= set(step.argval if isinstance(step.argval, tuple) else (step.argval,))
    return frozenset(names)

"""The script's functions that wait for a batch, and their locals, which can be read and set."""

from __future__ import annotations

import ctypes
import dis
import sys
from collections.abc import Iterable, Iterator
from functools import lru_cache
from types import CodeType, FrameType, GeneratorType
from typing import Any

#: How a module's own lines are called where functions are.
MODULE = "<module>"
#: Instructions at a loop's head that take apart and store what comes next.
_STORING = ("STORE_", "UNPACK_", "SWAP", "CACHE", "EXTENDED_ARG", "NOP")


class WaitingFunction:
    """A function of the script that is under way, known by its name from one call of it to the next."""

    def __init__(self) -> None:
        self.frame: FrameType | None = None  #: of the call that is under way; None: none is known
        self._left: dict[str, Any] = {}  # its locals, where an error has ended it
        self._coming: dict[bool, frozenset[str]] = {}  # what its loops over epochs and batches set next

    def note_place(self, is_of_epochs: bool) -> None:
        """It stands where it waits for a batch, or for an epoch."""
        if self.frame is not None:
            self._coming[is_of_epochs] = _stored_after(self.frame.f_code, self.frame.f_lasti)

    @property
    def coming(self) -> frozenset[str]:
        """What its loops set by themselves."""
        return frozenset().union(*self._coming.values())

    def values(self) -> dict[str, Any]:
        """Return its locals by their names."""
        if self.frame is None:
            return self._left
        shown = self.frame.f_locals
        found = dict(shown)
        if sys.version_info < (3, 13) and shown is not self.frame.f_globals:
            shown.clear()  # of a copy, which else keeps what was looked at, as large tensors
        return found

    def end(self) -> None:
        """It is over: keep its locals, but for tensors with a graph, which take memory, and generators.

        One that goes through the epochs is closed where nothing holds it any more.
        """
        values = self.values().items()
        self._left = {
            key: item
            for key, item in values
            if getattr(item, "grad_fn", None) is None and not isinstance(item, GeneratorType)
        }
        self.frame = None

    def get(self, name: str, default: Any) -> Any:
        return self.values().get(name, default)

    def has(self, name: str) -> bool:
        """Whether the call under way has a local of this name, which may be unbound."""
        code = None if self.frame is None else self.frame.f_code
        return code is not None and name in (*code.co_varnames, *code.co_cellvars, *code.co_freevars)

    def __setitem__(self, name: str, value: Any) -> None:
        if self.frame is None:
            self._left[name] = value
            return
        self.frame.f_locals[name] = value
        if sys.version_info < (3, 13):
            ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(self.frame), ctypes.c_int(0))
        self.values()


def labelled(frames: Iterable[FrameType]) -> Iterator[tuple[str, FrameType]]:
    """Yield frames with names as `fit()`, which two calls under way do not share."""
    nums: dict[str, int] = {}
    for frame in frames:
        name = frame.f_code.co_name
        nums[name] = nums.get(name, 0) + 1
        call = MODULE if name == MODULE else f"{name}()"
        yield call if nums[name] == 1 else f"{call}{nums[name]}", frame


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

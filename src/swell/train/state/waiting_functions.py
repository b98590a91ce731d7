"""The script's functions that wait for a batch, and their locals, which can be read and set."""

from __future__ import annotations

import ctypes
import dis
import sys
from collections.abc import Iterable, Iterator, Sequence, Set
from functools import lru_cache
from types import CodeType, FrameType
from typing import Any

import torch

from swell.train.link.code_paths import place_of, submitted, user_frames

#: In place of the value of a local that has none.
UNBOUND = object()
#: How a module's own lines are called where functions are.
MODULE = "<module>"
#: Instructions at a loop's head that take apart and store what comes next.
_STORING = ("STORE_", "UNPACK_", "SWAP", "CACHE", "EXTENDED_ARG", "NOP")


class WaitingFunction:
    """A function of the script that is under way, known by its name from one call of it to the next."""

    def __init__(self) -> None:
        self.frame: FrameType | None = None  #: of the call that is under way; None: none is known
        #: Of locals that are variables, as they were when they were looked at last.
        self.values: dict[str, Any] = {}
        self.watched: frozenset[str] = frozenset()  #: those of them that are looked at in each step
        self._coming: frozenset[str] = frozenset()  # what its loop over batches sets next
        self._epochs: frozenset[str] = frozenset()  # what its loop over epochs sets next
        self._tensors: list[str] = []

    def note_place(self, is_of_epochs: bool = False) -> None:
        """It stands where it waits for a batch, or for an epoch."""
        if self.frame is None:
            return
        if is_of_epochs:
            self._epochs = next_names(self.frame)
        else:
            self._coming = next_names(self.frame)

    @property
    def coming(self) -> frozenset[str]:
        """What its loops set by themselves."""
        return self._coming | self._epochs

    def shown(self) -> dict[str, Any]:
        """Return its locals, but for what its loops set, by their names."""
        if self.frame is None:
            return {}
        shown = self.frame.f_locals
        found = dict(shown)
        self._tensors = [name for name, value in found.items() if isinstance(value, torch.Tensor)]
        self._let_go(shown)
        coming = self.coming
        return {name: value for name, value in found.items() if name not in coming}

    def refresh(self) -> None:
        """Look at those of its locals again that are watched."""
        if self.frame is not None:
            shown = self.frame.f_locals
            self.values |= {name: shown.get(name, UNBOUND) for name in self.watched}
            self._let_go(shown)

    def has(self, name: str) -> bool:
        """Whether the call under way has a local of this name, which may be unbound."""
        if self.frame is None:
            return False
        code = self.frame.f_code
        return name in (*code.co_varnames, *code.co_cellvars, *code.co_freevars)

    def set(self, name: str, value: Any) -> None:
        """Give a local another value, in the call under way if there is one."""
        self.values[name] = value
        if self.frame is None:
            return
        shown = self.frame.f_locals
        shown[name] = value
        if sys.version_info < (3, 13):
            ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(self.frame), ctypes.c_int(0))
        self._let_go(shown)

    def _let_go(self, shown: dict[str, Any]) -> None:
        """Have a frame not keep tensors in memory because it was looked at, as it does before Python 3.13."""
        if sys.version_info < (3, 13):
            for name in self._tensors:
                shown.pop(name, None)


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


def place_of_change(frame: FrameType | None, attributes: Sequence[str], calls: Set[str]) -> str:
    """FILE:LINE where the script sets one of these attributes, else calls one of these; else its loop."""
    for names, kind in (*(({name}, "STORE_ATTR") for name in attributes), (calls, "LOAD_")):
        if place := last_place(user_frames(frame), names, kind):
            return place
    return place_of(frame)


def last_place(frames: Iterable[FrameType], names: Set[str], kind: str) -> str:
    """FILE:LINE of the last line with such a name, in the first function that has one; empty: none has."""
    for frame in frames:
        if lines := list(_lines_with(frame.f_code, names, kind)):
            return f"{submitted(frame.f_code.co_filename)}:{max(lines)}"
    return ""


def _lines_with(code: CodeType, names: Set[str], kind: str) -> Iterator[int]:
    """Lines of a function, and of those within, that store or load something of these names.

    Those in which modules are made are left out.
    """
    for step in dis.get_instructions(code):
        line = step.positions.lineno if step.positions is not None else None
        stored = step.argval if isinstance(step.argval, tuple) else (step.argval,)
        if step.opname.startswith(kind) and line is not None and not names.isdisjoint(map(str, stored)):
            yield line
    for part in code.co_consts:
        if isinstance(part, CodeType) and part.co_name != "__init__":
            yield from _lines_with(part, names, kind)

"""Finds a script's variables: globals, locals of the functions that run its loop, and what these lead to.

These functions wait for a batch, and their locals can be read and set.
"""

from __future__ import annotations

import argparse
import ctypes
import dis
import math
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import EnumMeta
from functools import lru_cache
from types import CodeType, FrameType, GeneratorType, MappingProxyType, SimpleNamespace
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, Sampler

from swell.train.link.code_paths import user_frames
from swell.train.state.model_changes import saved_buffers
from swell.train.state.script_values import UNBOUND, is_object, size_of, tensors_in
from swell.wire.library_paths import is_library

#: Objects that are looked into, and items of a container of them, at most.
MAX_SEEN, MAX_OBJECTS = 5000, 1000
#: Attributes of torch's own, which are no state or are saved otherwise.
_OF_MODULES = frozenset(vars(nn.Module())) - {"_modules"}
#: Objects whose attributes a script may set, though their classes are not its own.
_LOOKED_INTO = (SimpleNamespace, argparse.Namespace, Dataset, Sampler)
_OF_OPTIMIZERS = frozenset({"defaults", "state", "param_groups"})


@dataclass(frozen=True, slots=True)
class Variable:
    """A place where a script keeps a value."""

    name: str  #: as `__main__.counter`, `fit().history`, `__main__.trainer.count`
    key: Any
    space: Any  #: the namespace or the function that has it; None: what its owner holds has it
    owner: Variable | None = None

    def _around(self) -> Any:
        around = self.space if self.owner is None else self.owner.now()
        if isinstance(around, nn.Module) and self.key in around._buffers:
            return around._buffers
        is_space = isinstance(around, dict | list | tuple | WaitingFunction)
        return around if is_space else getattr(around, "__dict__", {})

    def now(self) -> Any:
        """Its value of now."""
        around = self._around()
        if isinstance(around, list | tuple):
            return around[self.key] if self.key < len(around) else UNBOUND
        return around.get(self.key, UNBOUND)

    def set(self, value: Any) -> None:
        """Give it this value, where that can be done; UNBOUND: have it not be there."""
        around = self._around()
        if isinstance(around, MappingProxyType) and self.owner is not None:  # of a class
            setattr(self.owner.now(), self.key, value)
        elif value is UNBOUND and isinstance(around, dict):
            around.pop(self.key, None)
        elif value is not UNBOUND and not isinstance(around, tuple):
            around[self.key] = value


class Search:
    """Finds a script's variables: where its loop stands, and what can be reached from there."""

    def __init__(self, frame: FrameType | None) -> None:
        folders = {os.path.dirname(os.path.abspath(user.f_code.co_filename)) for user in user_frames(frame)}
        self._modules = dict(_modules_in(folders))
        self._found: dict[str, Variable] = {}
        self._places: dict[str, Variable] = {}  # these, and others that lead to them
        self._seen: set[int] = set()  # objects that were looked into
        self._known: set[int] = set()  # objects that are saved anyway
        self._memory: set[int] = set()  # of tensors that are

    def find(
        self, functions: Mapping[str, WaitingFunction], parts: Sequence[Any], held: Sequence[Any]
    ) -> dict[str, Variable]:
        """The variables by their names, those that lead to others before these.

        Args:
            functions: that wait, by their names.
            parts: what is trained.
            held: what is saved besides.
        """
        owned = [part for thing in (*parts, *held) for part in _parts_of(thing)]
        self._known = {id(part) for part in owned} - {id(None)}
        self._memory = {part.data_ptr() for part in owned if isinstance(part, torch.Tensor)} - {0}
        self._found, self._places, self._seen = {}, {}, set()
        of_elastic = {f"part{number}": part for number, part in enumerate(parts)}
        taken = functions[MODULE].coming if MODULE in functions else frozenset()
        for label, space in {**self._modules, "elastic()": of_elastic}.items():
            self._visit_all(label, {key: space[key] for key in [*space] if key not in taken}, space)
        for label, function in functions.items():
            if not label.startswith(MODULE):
                own = {key: value for key, value in function.values().items() if key not in function.coming}
                self._visit_all(label, own, function)
        return self._found

    def missing(
        self, name: str, at: tuple[str, Any] | None, functions: Mapping[str, WaitingFunction]
    ) -> Variable | None:
        """An attribute or an item, a global, or a local of a function that waits, which is not set here yet.

        Args:
            at: the name of what holds it, and by which key.
        """
        if at is not None:
            return Variable(name, at[1], None, self._places[at[0]]) if at[0] in self._places else None
        label, _, key = name.rpartition(".")
        space = self._modules.get(label)
        if label in functions and functions[label].has(key):
            return Variable(name, key, functions[label])
        return None if space is None else Variable(name, key, space)

    def _visit_all(self, label: str, values: Mapping[Any, Any], space: Any, owner: Any = None) -> None:
        """Find the variables of a namespace, or of what `owner` holds, and those within them."""
        for key, value in values.items():
            is_plain = size_of(value) < math.inf
            is_ours = any(map(self.is_ours, (value, *tensors_in(value)) if is_plain else (value,)))
            if str(key).startswith("__") or (is_plain and is_ours):
                continue
            one = Variable(f"{label}.{key}", key, space, owner)
            self._places[one.name] = one
            if not is_ours:
                self._found[one.name] = one
            if not is_plain and id(value) not in self._seen and len(self._seen) <= MAX_SEEN:
                self._seen.add(id(value))
                self._visit_all(one.name, self._inside(value), None, one)

    def _inside(self, value: Any) -> Mapping[Any, Any]:
        """What an object holds of which the script may change something."""
        own = {**getattr(value, "__dict__", {})}
        if isinstance(value, nn.Module):
            names = getattr(value, "_non_persistent_buffers_set", ())  # a scripted module has none
            unsaved = {key: value._buffers[key] for key in names}
            return {key: item for key, item in own.items() if key not in _OF_MODULES} | unsaved
        if isinstance(value, torch.optim.Optimizer):
            own = {key: item for key, item in own.items() if size_of(item) < math.inf}
            return {key: own[key] for key in own if not key.startswith("_") and key not in _OF_OPTIMIZERS}
        if isinstance(value, DataLoader):
            return {key: getattr(value, key) for key in ("dataset", "sampler", "batch_sampler")}
        if isinstance(value, dict | list | tuple):
            items = [*value.items()] if isinstance(value, dict) else [*enumerate(value)]
            return {key: item for key, item in items[: MAX_OBJECTS + 1] if isinstance(key, str | int)}
        if isinstance(value, type) and not isinstance(value, EnumMeta):
            is_own = value.__module__ in self._modules
            return {key: item for key, item in own.items() if is_own and not callable(item)}
        return own if self.is_own(value) else {}

    def is_own(self, value: Any) -> bool:
        """Whether it is looked into: an object of the script's own classes, which does not save itself."""
        is_own = type(value).__module__ in self._modules or isinstance(value, _LOOKED_INTO)
        return is_own and not is_object(value)

    def is_ours(self, value: Any) -> bool:
        """Whether it is saved anyway, or of Swell itself."""
        if isinstance(value, torch.Tensor) and value.layout == torch.strided:
            return id(value) in self._known or value.data_ptr() in self._memory
        if isinstance(value, nn.Module) and id(value) not in self._known:
            return any(map(self.is_ours, (*value.parameters(), *value.buffers())))
        return id(value) in self._known or type(value).__module__.startswith("swell.")


def _modules_in(folders: set[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The namespaces of the script's own modules, by their names."""
    for name, module in [*sys.modules.items()]:
        file = getattr(module, "__dict__", {}).get("__file__")
        if not isinstance(file, str) or is_library(file) or name.startswith("swell."):
            continue
        if any(os.path.abspath(file).startswith(folder + os.sep) for folder in folders):
            yield name, vars(module)


def _parts_of(thing: Any) -> Iterator[Any]:
    yield thing
    if isinstance(thing, nn.Module):
        yield from thing.modules()
        yield from thing.parameters()
        for module in thing.modules():
            yield from (buffer for _, buffer in saved_buffers(module))


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

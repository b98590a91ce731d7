"""State that a script keeps in variables, found by comparing them with what they were before the first epoch.

Looked at are the globals of the script's modules, the attributes of its classes, objects and functions, the
locals of the functions that hold the loop, what closures share, and mutable defaults. Those that have changed
by the time the state is saved or sent belong to it, as far as they are plainly state: numbers, texts,
tensors, containers of these, objects with `state_dict`, and generators of random numbers. They are put back
before the next batch, locals into the functions that wait for it.
"""

from __future__ import annotations

import argparse
import copy
import functools
import math
import os
import sys
import warnings
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import FrozenInstanceError, dataclass, replace
from itertools import takewhile
from types import (
    CellType,
    CodeType,
    FrameType,
    FunctionType,
    MethodType,
    ModuleType,
    SimpleNamespace,
)
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, Sampler

from swell.script_facts import ScriptFinding
from swell.train.collective.gradients import LoopError
from swell.train.data.stateful import GENERATORS
from swell.train.link.code_paths import user_frames
from swell.train.state import codec
from swell.train.state.script_values import (
    MAX_BYTES,
    NAMED,
    SCALARS,
    UNCHANGING,
    VALUE_BYTES,
    Packed,
    attributes_of,
    can_be_made,
    copied,
    is_another,
    is_object,
    is_plain,
    kind_of,
    mark,
    mark_of_kind,
    mark_of_large,
    own_attributes,
    pack,
    size_of,
    state_of,
    tensors_in,
    unpack,
    wrap,
)
from swell.train.state.waiting_functions import (
    MODULE,
    UNBOUND,
    WaitingFunction,
    labelled,
    last_place,
)
from swell.wire.library_paths import is_library

MAX_DEPTH = 8
#: Numbers in a value that is copied in each step, and before it is known to change.
MAX_SMALL, MAX_KEPT = 10_000, 2**24
#: Objects that are looked into, at most.
MAX_SEEN = 5000
#: A container with more objects is not saved.
MAX_OBJECTS = 1000

#: How the names of a model's attributes begin where the script's own variables do not lead there.
_OF_MODEL = "elastic().model."

#: Objects whose attributes a script may set, though their classes are not its own.
_LOOKED_INTO = (SimpleNamespace, argparse.Namespace, Dataset, Sampler)
#: Attributes that optimizers save by themselves.
_OF_OPTIMIZERS = frozenset({"defaults", "state", "param_groups"})

Things = Callable[[], Sequence[Any]]
_MAKE = "Make there all that it changes between, and choose by a number"


@dataclass(frozen=True, slots=True)
class Variable:
    """One place where a script keeps a value that may be state."""

    name: str  #: as `__main__.counter`, `fit().history`, `__main__.trainer.count`
    value: Any
    #: A dict, as a namespace is, a list, an object, a function that waits or a closure's cell; None: a tuple.
    holder: Any = None
    key: Any = None
    owner: Variable | None = None  #: where the script keeps the holder, which may be another one by now
    #: What it holds is variables of their own: saved of the value itself is its type.
    is_around: bool = False
    same_as: str = ""  #: the name under which its object has been found before
    excess: str = ""  #: what there is too much of for it to be saved

    @property
    def can_be_put(self) -> bool:
        return self.holder is not None or not isinstance(self.value, (*SCALARS, tuple))

    def holds_at_most(self, most: int) -> bool:
        """Whether it is a generator, or plain with no more numbers than these."""
        if not is_plain(self.value):
            return isinstance(self.value, GENERATORS)
        num = self.value.size if isinstance(self.value, np.ndarray) else size_of(self.value) / VALUE_BYTES
        return num + sum(tensor.numel() for tensor in tensors_in(self.value)) <= most

    def mark(self) -> Any:
        """Equal for equal values."""
        if self.same_as:
            return ("same", self.same_as)
        if self.excess:
            return mark_of_large(self.value)
        return mark_of_kind(self.value) if self.is_around else mark(self.value)

    def packed(self) -> Packed | None:
        """Its value of now as it is saved; None if it cannot be."""
        value = self.now()
        if self.same_as or self.excess:
            return {"same": self.same_as} if self.same_as else None
        if self.is_around and not is_plain(value):
            keys = range(len(value)) if isinstance(value, list) else _keys_of(value)
            return {"made": kind_of(value), "keys": [*keys]} if can_be_made(value) else None
        return pack(value)

    def now(self) -> Any:
        """Its value of now; of a local, of when its function was looked at last."""
        if self.holder is None:
            return self.value
        holder = self.holder if self.owner is None else self.owner.now()
        kind = type(holder)
        if kind is WaitingFunction:
            return holder.values.get(self.key, UNBOUND)
        if kind is CellType:
            return UNBOUND if holder == CellType() else holder.cell_contents
        if isinstance(holder, dict):
            return holder.get(self.key, UNBOUND)
        if isinstance(holder, list):
            return holder[self.key] if self.key < len(holder) else UNBOUND
        return getattr(holder, self.key, UNBOUND)

    def set(self, value: Any) -> None:
        """Give it this value."""
        if self.holder is None:
            return
        holder = self.holder if self.owner is None else self.owner.now()
        if isinstance(holder, WaitingFunction):
            holder.set(self.key, value)
        elif isinstance(holder, dict):
            holder[self.key] = value
        elif isinstance(holder, list):
            holder[self.key : self.key + 1] = [value]  # or a new item at its end
        else:
            try:
                setattr(holder, self.key, value)
            except FrozenInstanceError:  # the script has a new one in each step, from which the next is made
                object.__setattr__(holder, self.key, value)

    def put(self, packed: Packed) -> None:
        """Give it this value, in place where it can be.

        Raises whatever the script's own objects raise, which did not ask for it.
        """
        self.set(unpack(self.now(), packed))


class ScriptVariables:
    """The variables of this process's script."""

    def __init__(self, parts: Things = tuple, held: Things = tuple) -> None:
        """
        Args:
            parts: what is trained, when the first batch is asked for.
            held: what the script has given to `run.state` by now.
        """
        self._parts, self._held = parts, held
        #: Whether they are looked for: in a job. A script that runs by itself is left alone.
        self.is_wanted = False
        #: Called with what another process would not have as it is here.
        self.tell: Callable[[ScriptFinding], object] = lambda finding: None
        self._told: set[str] = set()
        self._frame: FrameType | None = None  # of the loop, while that waits for a batch
        self._functions: dict[str, WaitingFunction] = {}  # that have waited, by their names
        self._callers: tuple[FrameType | None, FrameType | None] = (None, None)  # from which these were found
        self._codes: set[CodeType] = set()  # of these
        self._search: Search | None = None
        self._begun: dict[str, Any] = {}  # marks of the variables before the first epoch
        self._first: frozenset[str] = frozenset()  # the variables before the first batch
        self._scopes: tuple[str, ...] = ()  # modules and functions that were looked at then
        self._changed: dict[str, Variable] = {}  # since then
        self._watched: dict[str, Variable] = {}  # what `rewind` is for; in the first step, all but data
        self._small: set[str] = set()  # of these, those that are copied in each step
        self._has_locals = False  # of functions, among what is watched
        self._waiting: Mapping[str, Packed] = {}  # until a batch is given
        #: What is not in that, as it was before the head of an epoch that others are amid.
        self._before_head: dict[str, Packed] = {}
        self._kept: dict[str, Packed] = {}  # as of the step's beginning
        self._num_boundaries, self._look_at = 0, 1

    @property
    def is_waiting(self) -> bool:
        """Whether the script has not asked for a batch yet, and may still set what was restored."""
        return self.is_wanted and self._search is None

    # ------------------------------------------------------------------ boundaries
    def begin_epochs(self, frame: FrameType | None, restored_at: str) -> None:
        """The script enters its loop over epochs: what it sets from now on is of the first epoch.

        The head of that epoch reads what was restored. A worker that joins amid the epoch runs it with
        another model, so all that the head changes is put back before the first batch: to what was restored,
        or, where the others have not changed it since they began, to what it was here.

        Args:
            restored_at: in which part of an epoch what was restored was saved, see `TrainState`.
        """
        if not self.is_waiting:
            return
        search = Search(frame, self._parts())
        found = self._find(search, frame, "epoch")
        self._begun = {name: one.mark() for name, one in found.items()}
        self._scopes = search.scopes(frame)
        if restored_at == "amid":
            unchanged = {name: one for name, one in _kept_of(found).items() if name not in self._waiting}
            self._before_head = {name: copied(wrap(one.value)) for name, one in unchanged.items()}
        self._put(self._waiting, search, frame)
        if restored_at == "between":
            self._waiting = {}

    def reach_boundary(self, frame: FrameType | None) -> None:
        """The script asks for a batch, in the function of `frame`."""
        if not self.is_wanted:
            return
        self._frame = frame
        if self._search is None:
            self._search = Search(frame, self._parts())
            found = self._find(self._search, frame)
            self._first = frozenset(found)
            news = {name: one for name, one in found.items() if not name.startswith(self._scopes)}
            self._begun |= {name: one.mark() for name, one in news.items()}
            if not self._waiting:
                self._changed |= self._search.copies_of_models(found)
            self._watch(_kept_of(found))
        self._num_boundaries += 1
        if self._num_boundaries > self._look_at:
            self._look_at *= 2
            self._look()
            self._watch(self._changed)

    def leave_boundary(self) -> None:
        """The script gets a batch, or the epoch is over."""
        if self._before_head and self._search is not None:
            self._undo_head(self._search)
        if self._waiting:
            self.put_waiting()
        self._frame = None

    def _undo_head(self, search: Search) -> None:
        """What the head of the epoch has changed, and no worker before it, is again what it was."""
        before, self._before_head = self._before_head, {}
        for name, one in self._find(search, self._frame).items():
            if name in before and one.mark() != self._begun[name]:
                self._put_one(one, before[name], copied)

    def put_waiting(self) -> None:
        """Have the script's variables be what was restored."""
        if self._waiting:
            waiting, self._waiting = self._waiting, {}
            self._put(waiting, self._search, self._frame)

    def leave_loop(self) -> None:
        """The script leaves its loop over batches: what its functions hold is theirs alone from here on."""
        self._callers = (None, None)
        for function in self._functions.values():
            function.frame = None

    def see_end(self, frames: Iterable[FrameType]) -> None:
        """The script has raised an error in these calls, the innermost first: see what it has left there."""
        if self._search is not None:
            self._follow([frame for frame in frames if frame.f_code in self._codes])
            self._note(self._find(self._search, None))
            self.leave_loop()

    def tree(self) -> dict[str, Packed]:
        """Name and value of those that have changed."""
        if self._search is None:
            return dict(self._waiting)
        self._look()
        packed = {name: found.packed() for name, found in self._changed.items()}
        return {name: value for name, value in packed.items() if value is not None}

    def restore(self, values: Mapping[str, Packed]) -> None:
        """Take over what was saved; before the first batch, if that has not been given."""
        if self._search is None or self._frame is not None:
            self._waiting = values if self.is_wanted else {}
        else:
            self._put(values, self._search, self._frame)

    # ------------------------------------------------------------------ steps that are repeated
    def begin_step(self, frame: FrameType | None = None) -> None:
        """A step begins, and its batch goes to `frame`: `rewind` comes back to here.

        Modules and what is large are not copied, nor what has come since: `keep_objects`.
        """
        self._refresh(frame)
        self._kept = kept = {}
        for name in self._small:
            value = self._watched[name].now()
            if type(value) in UNCHANGING:
                kept[name] = {"value": value}
            elif value is not UNBOUND:
                kept[name] = copied(wrap(value))

    def keep_objects(self, frame: FrameType | None) -> None:
        """Keep modules and the like for `rewind`, too, and what no step is known to change: this one may.

        Args:
            frame: the script's function that the step is made from.
        """
        if self._search is not None:
            self._watched = {**_kept_of(self._find(self._search, frame, "")), **self._watched}
        for name, found in self._watched.items():
            value = found.now()
            if name not in self._kept and value is not UNBOUND:
                self._kept[name] = copied(wrap(value))

    def rewind(self, frame: FrameType | None = None) -> None:
        """What is known to change is again what it was, also in the function that waits for a batch.

        The boundary that comes is the one before the step again, and shows nothing new.
        """
        self._num_boundaries -= 1
        self._refresh(frame)
        for name, packed in self._kept.items():
            self._put_one(self._watched[name], packed, copied)

    def delete_others(self, names: Collection[str]) -> None:
        """Have no global and no attribute that the script has made since its first batch, beyond these."""
        self._look()
        for name, one in self._changed.items():
            holder = one.holder if one.owner is None else one.owner.now()
            is_kept = name in self._first or name in names or one.now() is UNBOUND
            if is_kept or isinstance(holder, list | WaitingFunction | CellType):
                continue
            if isinstance(holder, dict):
                del holder[one.key]
            elif one.key in getattr(holder, "__dict__", ()):
                with suppress(AttributeError):  # as one that is frozen
                    delattr(holder, one.key)

    def values(self, frame: FrameType | None = None) -> dict[str, Packed]:
        """Copies of all that may be put back, as it is now."""
        self._refresh(frame)
        values = {name: found.now() for name, found in {**self._changed, **self._watched}.items()}
        return {name: copied(wrap(value)) for name, value in values.items() if value is not UNBOUND}

    def _watch(self, variables: dict[str, Variable]) -> None:
        self._watched = variables
        self._small = {name for name, found in variables.items() if found.holds_at_most(MAX_SMALL)}
        roots = [_root_of(one) for one in variables.values()]
        for function in self._functions.values():
            function.watched = frozenset(root.key for root in roots if root.holder is function)
        self._has_locals = any(function.watched for function in self._functions.values())

    def _refresh(self, frame: FrameType | None) -> None:
        """See what the locals are now."""
        if self._has_locals:
            if frame is not None:
                self._see(frame)
            for function in self._functions.values():
                if function.watched:
                    function.refresh()

    # ------------------------------------------------------------------ what there is
    def frames(self) -> list[FrameType]:
        """The script's functions that wait for a batch, the innermost first."""
        return list(user_frames(self._frame))

    def _see(self, frame: FrameType) -> None:
        """Know the functions that wait, which are those that waited last as a rule."""
        caller, callers_caller = self._callers
        if frame is not caller or frame.f_back is not callers_caller:
            self._callers = frame, frame.f_back
            self._follow(user_frames(frame))

    def _follow(self, frames: Iterable[FrameType]) -> None:
        for function in self._functions.values():
            function.frame = None
        for label, frame in labelled(frames):
            self._functions.setdefault(label, WaitingFunction()).frame = frame
            self._codes.add(frame.f_code)

    def _look(self) -> None:
        if self._search is not None and self._frame is not None:
            self._note(self._find(self._search, self._frame))

    def _note(self, found: Mapping[str, Variable]) -> None:
        """Have what is not what it was belong to the state, and what is of a call that is over not."""
        parts = tuple(f"{name}." for name, one in found.items() if one.excess)
        self._changed = {
            name: one
            for name, one in self._changed.items()
            if (name in found or not isinstance(one.holder, WaitingFunction)) and not name.startswith(parts)
        }
        for name, one in found.items():
            if not one.can_be_put:
                continue
            if name in self._changed and is_plain(one.value):
                self._changed[name] = one
                continue
            begun, now = self._begun.get(name), one.mark()
            if name not in self._changed and now == begun:
                continue
            self._changed[name] = one
            is_late = one.is_around and not isinstance(begun, tuple)
            if one.excess:
                self._tell_lost(one, f"changes, and has more than {one.excess}", "Keep it in run.state")
            elif (is_late or is_another(now, begun)) and not can_be_made(one.value):
                kind = kind_of(one.value).replace(":", ".")
                self._tell_lost(one, f"is another one than when the loop began ({kind})")

    def _find(self, search: Search, frame: FrameType | None, waits_for: str = "batch") -> dict[str, Variable]:
        """Find them. Of those that the script sets next, where it waits for something, none is shown."""
        search.leave_out(self._held())
        if frame is not None:
            self._see(frame)
            for function in self._functions.values() if waits_for else ():
                function.note_place(waits_for == "epoch")
        return search.find(self._functions)

    def _put(self, values: Mapping[str, Packed], search: Search | None, frame: FrameType | None) -> None:
        found = self._changed if search is None else {**self._changed, **self._find(search, frame)}
        # What holds others comes before these, and what is the same as another one after that.
        for name in sorted(values, key=lambda name: ("same" in values[name], len(name))):
            packed, variable = values[name], found.get(name)
            if "same" in packed and search is not None:
                found = self._find(search, frame)
                packed = {"value": found[packed["same"]].value} if packed["same"] in found else {}
            if variable is None and search is not None:
                variable = search.missing(name, self._functions)
            if variable is not None and packed:
                if search is not None and "object" in packed:
                    search.make_twin(variable, packed["object"])
                self._put_one(variable, packed, codec.completed)
                self._changed[name] = variable

    def _put_one(self, variable: Variable, packed: Packed, prepared: Callable[[Packed], Packed]) -> None:
        try:
            variable.put(prepared(packed))
        except Exception as error:  # noqa: BLE001 - of the script's own objects, which did not ask for it
            if variable.now() is not UNBOUND or self._search is not None:  # else the script may make it yet
                self._tell_lost(variable, f"could not be put back ({error})")

    def _tell_lost(self, variable: Variable, why: str, remedy: str = _MAKE) -> None:
        if variable.name in self._told:
            return
        self._told.add(variable.name)
        name = variable.name.removeprefix("__main__.")
        text = (
            f"`{name}` {why}: a worker that joins, and a job that goes on later, has what the script makes "
            f"before its loop. {remedy}"
        )
        warnings.warn(text, stacklevel=2)
        key = variable.name.rpartition(".")[2]
        place = last_place(self.frames(), {key}, "STORE_")
        self.tell(ScriptFinding(name="script-variable", text=text, place=place, holds=False))


def _kept_of(found: Mapping[str, Variable]) -> dict[str, Variable]:
    """Those that are kept where it is not known what changes: all but data."""
    putable = {name: one for name, one in found.items() if one.can_be_put}
    return {name: one for name, one in putable.items() if one.holds_at_most(MAX_KEPT) or is_object(one.value)}


class Search:
    """Finds a script's variables: where its loop stands, and what can be reached from there."""

    def __init__(self, frame: FrameType | None, known: Sequence[Any]) -> None:
        self._models = [thing for thing in known if isinstance(thing, nn.Module)]
        self._optimizers = [thing for thing in known if isinstance(thing, torch.optim.Optimizer)]
        self._owners: dict[str, Variable] = {}  # by their names, of what is found
        self._known = {id(part) for thing in known for part in _parts_of(thing)} - {id(None)}
        self._memory = frozenset(
            part.data_ptr() for thing in known for part in _parts_of(thing) if isinstance(part, torch.Tensor)
        )
        frames = list(user_frames(frame))
        folders = {os.path.dirname(os.path.abspath(user.f_code.co_filename)) for user in frames}
        self._modules = {module.__name__: module for module in list(_modules_in(folders))}
        self._seen: dict[int, str] = {}  # the names under which objects were found
        self._waiting: tuple[CodeType, ...] = ()  # of the functions that wait

    def leave_out(self, things: Iterable[Any]) -> None:
        """They are saved anyway."""
        news = [thing for thing in things if thing is not None and id(thing) not in self._known]
        self._known |= {id(part) for thing in news for part in _parts_of(thing)}

    def scopes(self, frame: FrameType | None) -> tuple[str, ...]:
        """How the names begin of what can be found from there."""
        functions = {user.f_code.co_name for user in user_frames(frame)} - {"<module>"}
        return ("elastic().", *(f"{name}." for name in self._modules), *(f"{name}()." for name in functions))

    def find(self, functions: Mapping[str, WaitingFunction]) -> dict[str, Variable]:
        """The variables by their names.

        Args:
            functions: that wait, by their names.
        """
        found = self._walk(functions)
        self._owners = {}  # nothing of the script is to live longer for it
        return found

    def _walk(self, functions: Mapping[str, WaitingFunction]) -> dict[str, Variable]:
        self._seen = {}
        frames = [function.frame for function in functions.values()]
        self._waiting = tuple(frame.f_code for frame in frames if frame is not None)
        found: dict[str, Variable] = {}
        taken = functions[MODULE].coming if MODULE in functions else ()
        for module in self._modules.values():
            space = vars(module)
            values = {name: value for name, value in space.items() if name not in taken}
            found |= {one.name: one for one in self._within(module.__name__, values, space, 0)}
        for label, function in functions.items():
            if not label.startswith(MODULE):
                there = [*self._within(label, function.shown(), function, 0)]
                roots = map(_root_of, there)
                function.values = {root.key: root.value for root in roots if root.holder is function}
                found |= {one.name: one for one in there}
        for path, module in (each for model in self._models for each in model.named_modules()):
            if id(module) not in self._seen:  # too deep, or held by what is no part of the script
                label = f"{_OF_MODEL}{path}" if path else _OF_MODEL[:-1]
                self._owners[label] = Variable(label, module)
                found |= {one.name: one for one in self._within(label, _own_of(module), module, MAX_DEPTH)}
        for number, optimizer in enumerate(self._optimizers):
            label = f"elastic().optimizers[{number}]"
            self._owners[label] = Variable(label, optimizer)
            own = {key: item for key, item in vars(optimizer).items() if key not in _OF_OPTIMIZERS}
            there = [*self._within(label, own, optimizer, MAX_DEPTH)]
            found |= {one.name: one for one in there if is_plain(one.value) and not one.key.startswith("_")}
        return found

    def missing(self, name: str, functions: Mapping[str, WaitingFunction]) -> Variable | None:
        """A global, a local of a function that waits, an attribute or an item, made in the loop."""
        owner, _, key = name.rpartition(".")
        if owner in functions and functions[owner].has(key):
            return Variable(name, UNBOUND, functions[owner], key)
        if owner in self._modules:
            return Variable(name, UNBOUND, vars(self._modules[owner]), key)
        self._walk(functions)
        around, self._owners = self._owners.get(owner), {}
        if around is None or isinstance(around.value, (tuple, *SCALARS)):
            return None
        is_number = key.isdecimal() and not any(isinstance(each, str) for each in _keys_of(around.value))
        if isinstance(around.value, list) and not is_number:
            return None
        return Variable(name, UNBOUND, around.value, int(key) if is_number else key, around)

    def copies_of_models(self, found: Mapping[str, Variable]) -> dict[str, Variable]:
        """Those with the weights that a model begins with: another process would copy those of then."""
        try:
            states = [model.state_dict() for model in self._models]
        except LoopError:  # one is divided, and its weights are not here to be copied
            return {}
        models = [*([*model.parameters()] for model in self._models), *([*one.values()] for one in states)]
        held = {name: one for name, one in found.items() if one.can_be_put and not one.is_around}
        weights = {name: _weights_in(one.value) for name, one in held.items() if not one.excess}
        return {
            name: found[name]
            for name, own in weights.items()
            if any(_are_equal(own, model) for model in models)
        }

    def make_twin(self, variable: Variable, state: Any) -> None:
        """Make the copy of the model (as of the best one so far) that a script has not made here yet."""
        if is_object(variable.now()) or variable.holder is None or not isinstance(state, dict):
            return
        for model in self._models:
            if model.state_dict().keys() == state.keys():
                variable.set(copy.deepcopy(model))
                return

    def _within(
        self, label: str, values: Mapping[Any, Any], holder: Any, depth: int, owner: Variable | None = None
    ) -> Iterator[Variable]:
        """Yield the variables among these values, and within them.

        Args:
            owner: where the holder is kept, if that is known.
        """
        for key, value in values.items():
            if (isinstance(key, str) and key.startswith("__")) or self._is_ours(value):
                continue
            name, plain = f"{label}.{key}", is_plain(value)
            if plain and any(self._is_ours(tensor) for tensor in tensors_in(value)):
                continue  # as a list of the model's parameters
            one, is_named = Variable(name, value, holder, key, owner), isinstance(value, NAMED)
            self._owners[name] = one
            if plain or is_named or (is_object(value) and not self._is_of_model(value)):
                yield one
                if isinstance(value, FunctionType) and depth < MAX_DEPTH:
                    yield from self._of_function(name, value, depth + 1)
            elif depth < MAX_DEPTH and id(value) not in self._seen and len(self._seen) < MAX_SEEN:
                self._seen[id(value)] = name
                if excess := _excess_of(value):
                    yield replace(one, excess=excess)
                elif self._is_made(value):
                    yield replace(one, is_around=True)
                yield from self._inside(one, depth + 1)
            elif id(value) in self._seen and self._is_made(value):
                yield replace(one, is_around=True, same_as=self._seen[id(value)])

    def _is_made(self, value: Any) -> bool:
        """Whether another process may make it: an object of the script's classes, or what holds such."""
        if isinstance(value, list | dict):
            return type(value) in (list, dict)
        is_of_torch = isinstance(value, (type, nn.Module, Dataset, Sampler, DataLoader))
        return not is_of_torch and getattr(value, "__module__", None) in self._modules

    def _inside(self, one: Variable, depth: int) -> Iterator[Variable]:
        name, value = one.name, one.value
        if isinstance(value, list) and len(value) <= MAX_OBJECTS:
            yield from self._within(name, dict(enumerate(value)), value, depth, one)
        elif isinstance(value, tuple) and len(value) <= MAX_OBJECTS:
            yield from self._within(name, dict(enumerate(value)), None, depth)
        elif isinstance(value, dict) and len(value) <= MAX_OBJECTS:
            yield from self._within(name, value, value, depth, one)
        elif isinstance(value, nn.Module):
            yield from self._within(name, _own_of(value), value, depth, one)
            yield from self._within(name, dict(value._modules), None, depth)
        elif isinstance(value, MethodType):
            yield from self._within(name, {"self": value.__self__}, None, depth)
        elif isinstance(value, functools.partial):
            yield from self._within(name, {"func": value.func, **dict(enumerate(value.args))}, None, depth)
            yield from self._within(name, value.keywords, value.keywords, depth)
        elif isinstance(value, DataLoader):
            parts = {key: getattr(value, key) for key in ("dataset", "sampler", "batch_sampler")}
            yield from self._within(name, parts, None, depth)
        elif isinstance(value, _LOOKED_INTO) or getattr(value, "__module__", None) in self._modules:
            yield from self._within(name, attributes_of(value), value, depth, one)

    def _of_function(self, name: str, function: FunctionType, depth: int) -> Iterator[Variable]:
        """What a function keeps: attributes, defaults, and what it shares with the one that it was made in.

        Of one that waits the latter are locals, which are found as such, but for those that its loop sets.
        """
        code = function.__code__
        if is_library(code.co_filename):  # as what `@torch.no_grad()` makes
            wrapped = getattr(function, "__wrapped__", None)
            if isinstance(wrapped, FunctionType) and depth < MAX_DEPTH:
                yield from self._of_function(name, wrapped, depth + 1)
            return
        yield from self._within(name, vars(function), function, depth)
        yield from self._within(name, dict(enumerate(function.__defaults__ or ())), None, depth)
        named = function.__kwdefaults__ or {}
        yield from self._within(name, named, named, depth)
        if not code.co_freevars:
            return
        around = [each for each in self._waiting if each is code or _is_within(code, each)]
        known = {key for each in around for key in (*each.co_cellvars, *each.co_freevars)}
        for key, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            if key not in known and id(cell) not in self._seen and cell != CellType():  # empty: not set yet
                self._seen[id(cell)] = name
                for one in self._within(name, {key: cell.cell_contents}, cell, depth):
                    yield replace(one, key="cell_contents") if one.holder is cell else one

    def _is_ours(self, value: Any) -> bool:
        """Whether it is saved anyway, or of Swell itself."""
        if isinstance(value, nn.Module):
            return False  # the model may have attributes of its own
        if isinstance(value, torch.Tensor) and value.numel() > 0 and value.data_ptr() in self._memory:
            return True
        return id(value) in self._known or type(value).__module__.startswith("swell.")

    def _is_of_model(self, value: Any) -> bool:
        if id(value) in self._known:
            return True
        return isinstance(value, nn.Module) and any(
            part.data_ptr() in self._memory for part in (*value.parameters(), *value.buffers())
        )


def _weights_in(value: Any) -> list[torch.Tensor]:
    return [*tensors_in(state_of(value) if isinstance(value, nn.Module) else value)]


def _are_equal(some: Sequence[torch.Tensor], others: Sequence[torch.Tensor]) -> bool:
    return len(some) == len(others) and all(
        one.shape == other.shape and one.dtype == other.dtype and torch.equal(one, other.to(one.device))
        for one, other in zip(some, others, strict=True)
    )


def _modules_in(folders: set[str]) -> Iterator[ModuleType]:
    """The script's own modules, among its main one and all that were imported after this one.

    Those that were imported before are left alone: a worker shares their pages with the zygote, and to look
    at an object is to write its reference count.
    """
    since = list(takewhile(lambda name: name != __name__, reversed(sys.modules)))
    for name in ("__main__", *reversed(since)):
        module = sys.modules[name]
        file = getattr(module, "__file__", None)
        if not isinstance(file, str) or is_library(file) or name.startswith("swell."):
            continue
        if any(os.path.abspath(file).startswith(folder + os.sep) for folder in folders):
            yield module


def _is_within(code: CodeType, around: CodeType) -> bool:
    """Whether a function stands within another one."""
    return any(
        each is code or _is_within(code, each) for each in around.co_consts if isinstance(each, CodeType)
    )


def _excess_of(value: Any) -> str:
    """What a container has too much of for it to be saved; empty: nothing, or it is none."""
    if not isinstance(value, list | dict | set | deque):
        return ""
    is_large = MAX_BYTES < size_of(value) < math.inf
    return f"{MAX_BYTES:,} bytes" if is_large else f"{MAX_OBJECTS:,} objects" * (len(value) > MAX_OBJECTS)


def _keys_of(thing: Any) -> Iterable[Any]:
    return thing if isinstance(thing, dict) else ()


def _root_of(one: Variable) -> Variable:
    """The variable that leads to this one."""
    return one if one.owner is None else _root_of(one.owner)


def _own_of(module: nn.Module) -> dict[str, Any]:
    """Attributes of a module that its state_dict lacks: those that are not torch's, and some buffers."""
    return {**own_attributes(module), **_unsaved_buffers(module)}


def _unsaved_buffers(module: nn.Module) -> dict[str, Any]:
    names = getattr(module, "_non_persistent_buffers_set", ())  # a scripted module has none
    return {name: module._buffers[name] for name in names}


def _parts_of(thing: Any) -> Iterator[Any]:
    yield thing
    if isinstance(thing, nn.Module):
        yield from thing.modules()
        yield from thing.parameters()
        unsaved = {id(tensor) for module in thing.modules() for tensor in _unsaved_buffers(module).values()}
        yield from (tensor for tensor in thing.buffers() if id(tensor) not in unsaved)

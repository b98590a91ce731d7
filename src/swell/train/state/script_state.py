"""What a script counts and keeps: `run.state`, saved, moved to joiners and restored.

An entry is a plain value or an object with `state_dict` and `load_state_dict`. The script gives its entries
after the state is restored, so what was saved waits for them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from functools import wraps
from types import FrameType
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.modules.module import _IncompatibleKeys

from swell.train.data.stateful import GENERATORS, Stateful, as_stateful
from swell.train.link.code_paths import place_of
from swell.train.state import codec
from swell.train.state.script_values import SCALARS, UNCHANGING, bring_back, fill, is_light, keep

#: Items of a container whose numbers are compared between workers, at most.
MOST_NUMBERS = 64
_PLAIN = (*SCALARS, torch.Tensor, dict, list, tuple)


class ScriptState(MutableMapping[str, Any]):
    """A mapping of names to plain values and to objects that can be saved.

    A saved value stays until the script has looked at it: an assignment before that only gives the value to
    begin with, as `setdefault` does, and so does one that gives an object. So the lines before the loop are
    the same at the first launch and at each later one.
    """

    def __init__(self, objects: Mapping[str, Any] | None = None) -> None:
        self._entries: dict[str, Any] = {}
        self._waiting: dict[str, Any] = {}  # state dicts of objects that the script has not given yet
        self._unseen: set[str] = set()  # restored values that the script has not looked at
        self._light: set[str] = set()  # objects that are copied in each step
        self._kept: dict[str, Any] = {}  # as of the step's beginning
        for name, thing in (objects or {}).items():
            self[name] = thing

    # ------------------------------------------------------------------ the script's side
    def __getitem__(self, name: str) -> Any:
        if name in self._unseen:
            self._unseen.discard(name)
            self._entries[name] = codec.completed(self._entries[name])
        if name in self._waiting:
            raise KeyError(
                f"{name!r} was saved from an object: give it with run.state.setdefault({name!r}, ...)"
            )
        return self._entries[name]

    def __setitem__(self, name: str, value: Any) -> None:
        if not isinstance(name, str):
            raise TypeError(f"run.state[{name!r}]: names are strings")
        value = value.item() if isinstance(value, np.generic) else value
        self._light.discard(name)
        if not _is_plain(value):
            self._give(name, value)
            self._light |= {name} if is_light(value) else set()
        elif name in self._unseen:
            own, value = value, self._entries[name]
            both_tensors = isinstance(own, torch.Tensor) and isinstance(value, torch.Tensor)
            value = value.to(own.device) if both_tensors else value
        elif not isinstance(value, bool | int | float | str):
            codec.encode(value, f"run.state[{name!r}]")  # raises where it cannot be saved
        self._waiting.pop(name, None)
        self._entries[name] = value
        self._unseen.discard(name)

    def __delitem__(self, name: str) -> None:
        if all(held.pop(name, held) is held for held in (self._entries, self._waiting)):
            raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter([*self._entries])

    def __len__(self) -> int:
        return len(self._entries)

    def setdefault(self, name: str, default: Any = None) -> Any:
        """The value of this name: the saved one, or else `default`."""
        if name in self._unseen or name not in self:
            self[name] = default
        return self[name]

    def __repr__(self) -> str:
        return f"run.state({self._entries!r})"

    def _give(self, name: str, thing: Any) -> None:
        if not isinstance(as_stateful(thing), Stateful):
            raise TypeError(
                f"state[{name!r}] is a {type(thing).__qualname__} without state_dict() and "
                "load_state_dict(); add the two methods, or give plain values (of an array: "
                "torch.from_numpy(array))"
            )
        if name in self._waiting:
            as_stateful(thing).load_state_dict(self._waiting[name])

    def see_all(self) -> None:
        """The script has come to where it sets entries again: from here on its assignments count."""
        self._unseen.clear()

    # ------------------------------------------------------------------ saved and restored
    @property
    def objects(self) -> dict[str, Any]:
        """The objects that the script has given."""
        return {name: thing for name, thing in self._entries.items() if not _is_plain(thing)}

    def held(self) -> list[Any]:
        """Objects, containers and tensors that are saved here."""
        return [value for value in self._entries.values() if not isinstance(value, SCALARS)]

    def state_dicts(self) -> dict[str, Any]:
        """The state dict of each object, also of those that the script has not given yet."""
        given = {name: as_stateful(thing).state_dict() for name, thing in self.objects.items()}
        return given | self._waiting

    def values_tree(self) -> dict[str, Any]:
        """The plain values."""
        return {name: value for name, value in self._entries.items() if _is_plain(value)}

    def numbers(self) -> Iterator[tuple[str, float]]:
        """Name each number that is kept, but for those of generators and of long lists."""
        for name, value in self._entries.items():
            if not isinstance(value, GENERATORS):
                kept = value if _is_plain(value) else as_stateful(value).state_dict()
                yield from _numbers_in(kept, f"run.state[{name!r}]")

    def restore(self, objects: Mapping[str, Any], values: Mapping[str, Any]) -> None:
        """Take over what was saved."""
        given, own = self.objects, self.values_tree()
        for name, saved in objects.items():
            if name in given:
                as_stateful(given[name]).load_state_dict(saved)
            else:
                self._entries.pop(name, None)
                self._waiting[name] = saved
        self._unseen |= values.keys() - own.keys()
        self._entries |= {name: fill(self._entries.get(name), value) for name, value in values.items()}

    # ------------------------------------------------------------------ steps that are repeated
    def begin_step(self) -> None:
        """A step begins: `rewind` comes back to here. Of objects, only those of a small state are copied."""
        self._unseen.clear()
        small = [name for name, value in self._entries.items() if name in self._light or _is_plain(value)]
        self._kept = {name: keep(self._entries[name]) for name in small}

    def keep_objects(self) -> None:
        """Keep the other objects for `rewind`, too."""
        self._kept = {name: keep(thing) for name, thing in self.objects.items()} | self._kept

    def rewind(self) -> None:
        """Go back to where the step began. Containers and tensors that the script holds stay the same."""
        for name in self.values_tree().keys() - self._kept.keys():
            del self._entries[name]
        self._entries |= {name: bring_back(kept) for name, kept in self._kept.items()}


def _numbers_in(value: Any, name: str) -> Iterator[tuple[str, float]]:
    if isinstance(value, int | float):
        yield name, float(value)
    elif isinstance(value, dict | list | tuple) and len(value) <= MOST_NUMBERS:
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _numbers_in(item, f"{name}[{key!r}]")


def _is_plain(value: Any) -> bool:
    return type(value) in UNCHANGING or (isinstance(value, _PLAIN) and not isinstance(value, Stateful))


_guards: list[LoadGuard] = []  # that are open
_watched: set[type] = set()  # classes of what they keep


class LoadGuard:
    """Keeps what was restored until the script begins with it: what it loads before that is left out.

    A script that calls `load_state_dict` between `elastic` and its loop, with weights that it begins with or
    with a checkpoint of its own, does so in each process: one that joins, or goes on later, has got a state
    before.
    """

    def __init__(self, model: nn.Module, others: Sequence[Any]) -> None:
        """`others`: that have a state, apart from the model."""
        self._model, self._others = model, others
        self._versions, self._is_told = self._versions_now(), False
        for kind in (nn.Module, *map(type, others)):
            if kind not in _watched:
                _watched.add(kind)
                kind.load_state_dict = _watching(kind.load_state_dict)  # type: ignore[attr-defined]
        _guards.append(self)

    def close(self) -> None:
        """The script begins: what it loads from now on counts."""
        _guards.remove(self)

    def leaves_out(self, part: object, frame: FrameType) -> bool:
        """Whether the script is to load nothing into this part.

        If it has changed the model since, as one that has tried rates does, it puts back what there was.
        """
        is_ours = any(part is each for each in (*self._model.modules(), *self._others))
        if not is_ours or self._versions != self._versions_now():
            return False
        if not self._is_told and (place := place_of(frame)):
            self._is_told = True
            sys.stderr.write(
                f"swell: {place} loads a state after elastic(), which gave this worker the job's: that one "
                "holds. Load before elastic() what the job is to begin with\n"
            )
        return True

    def _versions_now(self) -> list[int]:
        return [tensor._version for tensor in (*self._model.parameters(), *self._model.buffers())]


def _watching(load: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(load)
    def load_unless_left_out(part: Any, *args: Any, **options: Any) -> Any:
        if any(guard.leaves_out(part, sys._getframe(1)) for guard in _guards):
            return _IncompatibleKeys([], []) if isinstance(part, nn.Module) else None
        return load(part, *args, **options)

    return load_unless_left_out

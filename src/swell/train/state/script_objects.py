"""Objects of the script that are not those of the loop's beginning: told by their types, and made again.

A loss function such as `nn.SmoothL1Loss()` in place of `nn.MSELoss()` is its type and a few plain attributes.
A function, or a member of an enumeration, is found by its name. Where an object has parameters, or its type
cannot be found by its name, another process can only put its state into one of that type.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from enum import Enum
from types import BuiltinFunctionType, FunctionType
from typing import Any

import torch
from torch import nn

from swell.train.data.stateful import as_stateful

#: Types of values that need no copy.
UNCHANGING = frozenset({bool, int, float, complex, str, type(None)})
#: What another process finds by its name.
NAMED = (FunctionType, BuiltinFunctionType, Enum)
#: Attributes that every module has from torch.
_OF_MODULES = frozenset(vars(nn.Module()))

#: The type, attributes, buffers and mode of each part of a module, by its path, and what it has beside these.
Form = dict[str, dict[str, Any]]


def kind_of(thing: Any) -> str:
    """MODULE:NAME of a type, of a function or of a member of an enumeration."""
    if isinstance(thing, FunctionType | BuiltinFunctionType):
        return f"{thing.__module__}:{thing.__qualname__}"
    name = f"{type(thing).__module__}:{type(thing).__qualname__}"
    return f"{name}.{thing.name}" if isinstance(thing, Enum) else name


def name_of(thing: Any) -> str | None:
    """MODULE:NAME by which another process finds a function or a member; None: it has no such name."""
    short = "" if isinstance(thing, Enum) else thing.__name__
    for place in (kind_of(thing), f"torch:{short}", f"torch.nn.functional:{short}"):
        try:
            if find(place) is thing:
                return place
        except LookupError:
            continue
    return None


def find(name: str) -> Any:
    """Return what a module has that is imported. Raises LookupError."""
    module, _, path = name.partition(":")
    found: Any = sys.modules.get(module)
    for part in path.split("."):
        found = getattr(found, part, None)
    if found is None:
        raise LookupError(f"there is no {path} in {module} here")
    return found


def own_attributes(module: nn.Module) -> dict[str, Any]:
    """Return the attributes of a module that are not torch's."""
    return {key: item for key, item in vars(module).items() if key not in _OF_MODULES}


def form_of(module: nn.Module) -> Form:
    """Return what a module is made of, apart from its tensors."""
    return {
        path: {
            "kind": kind_of(part),
            "attributes": {key: item for key, item in own_attributes(part).items() if _is_flat(item)},
            "buffers": [*part._buffers],
            "is_training": part.training,
            "more": [
                *(key for key, item in own_attributes(part).items() if not _is_flat(item)),
                *(key for key, item in part._parameters.items() if item is not None),
            ],
        }
        for path, part in module.named_modules()
    }


def text_of(form: Form) -> str:
    """Return what is equal for equal types and attributes."""
    return repr([(path, part["kind"], part["attributes"]) for path, part in form.items()])


def can_be_made(thing: Any) -> bool:
    """Whether another process can make a function, a member or an object again."""
    if isinstance(thing, NAMED):
        return name_of(thing) is not None
    return isinstance(thing, nn.Module) and not any(part["more"] for part in form_of(thing).values())


def put_object(own: Any, packed: Mapping[str, Any]) -> Any:
    """Give an object the state of another of its type, or make one of that type, and return it.

    Raises TypeError or LookupError: there is none, and it cannot be made.
    """
    form, state = packed.get("form"), packed["object"]
    is_there = kind_of(own) == packed["kind"]
    if form is not None:
        is_there = is_there and isinstance(own, nn.Module) and _kinds(form_of(own)) == _kinds(form)
        own = own if is_there else _made(form, state)
        for path, part in form.items():
            vars(own.get_submodule(path)).update(part["attributes"])
    elif not is_there:
        raise TypeError(f"it was a {packed['kind'].replace(':', '.')}, and here it is a {type(own).__name__}")
    if state is not None:
        as_stateful(own).load_state_dict(state)
    return own


def _made(form: Form, state: Mapping[str, Any] | None) -> nn.Module:
    made: dict[str, nn.Module] = {}
    for path, part in form.items():
        kind = find(part["kind"])
        if part["more"] or not isinstance(kind, type) or not issubclass(kind, nn.Module):
            raise TypeError(f"a {part['kind'].replace(':', '.')} cannot be made again here")
        module = made[path] = kind.__new__(kind)
        nn.Module.__init__(module)
        module.training = part["is_training"]
        for name in part["buffers"]:
            saved = (state or {}).get(f"{path}.{name}" if path else name)
            module.register_buffer(name, None if saved is None else torch.empty_like(saved))
        if path:
            owner, _, key = path.rpartition(".")
            made[owner].add_module(key, module)
    return made[""]


def _kinds(form: Form) -> dict[str, str]:
    return {path: part["kind"] for path, part in form.items()}


def _is_flat(value: Any) -> bool:
    """Whether it is a number or a text, or a list or tuple of these."""
    return type(value) in UNCHANGING or (
        isinstance(value, list | tuple) and all(type(item) in UNCHANGING for item in value)
    )

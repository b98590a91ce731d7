"""What a step leaves in the script's variables, and whether two workers' parts of a batch leave the same."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from types import FrameType
from typing import Any

from swell.train.link.code_paths import submitted
from swell.train.state import codec
from swell.train.state.script_values import copied, mark, tensors_in
from swell.train.state.script_variables import line_of_store

#: Part of the training state, and name in it.
Key = tuple[str, str]


def of_second(first: codec.Tree, second: codec.Tree) -> dict[Key, Any]:
    """What the second of two steps has left otherwise than the first, single numbers before others."""
    keys = [key for key in _keys(second) if not is_same(key, first, second)]
    return {key: second[key[0]][key[1]] for key in sorted(keys, key=lambda key: _size(key, second))}


def is_same(key: Key, one: codec.Tree, other: codec.Tree) -> bool:
    """Whether both have the value, and it is the same; True if only one has it."""
    part, name = key
    if name not in one[part] or name not in other[part]:
        return True
    return bool(mark(one[part][name]) == mark(other[part][name]))


def is_plain_data(key: Key, value: Any) -> bool:
    """Whether it is of numbers and texts, as what a script prints, and holds no tensor or object."""
    is_object = key[0] == "objects" or (key[0] == "variables" and "object" in value)
    return not is_object and next(tensors_in(value), None) is None


def _keys(tree: codec.Tree) -> list[Key]:
    return [(part, name) for part, values in tree.items() for name in values]


def _size(key: Key, tree: codec.Tree) -> int:
    return len(repr(mark(tree[key[0]][key[1]])))


def with_values(tree: codec.Tree, values: Mapping[Key, Any]) -> codec.Tree:
    """A training state with other values of the script."""
    twin = dict(tree)
    for (part, name), value in values.items():
        twin[part] = {**twin.get(part, {}), name: copied(value)}
    return twin


def spelled(key: Key) -> str:
    """What the script calls it."""
    part, name = key
    return name.removeprefix("__main__.") if part == "variables" else f"run.state[{name!r}]"


def place_of_store(frames: Iterable[FrameType], key: Key) -> str:
    """Return FILE:LINE where a function of the script, or one that is made in it, last sets it; or empty."""
    owner, _, name = key[1].rpartition(".")
    is_attribute = bool(owner) and owner not in sys.modules and not owner.endswith("()")
    for frame in frames:
        if (line := line_of_store(frame.f_code, name, is_attribute)) is not None:
            return f"{submitted(frame.f_code.co_filename)}:{line}"
    return ""

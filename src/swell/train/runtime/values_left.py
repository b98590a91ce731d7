"""What a step leaves in the script's variables, and whether two workers' parts of a batch leave the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from swell.train.state import codec
from swell.train.state.script_values import copied, mark, tensors_in

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

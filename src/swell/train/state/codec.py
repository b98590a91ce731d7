"""A state tree as JSON plus tensors, and back: what is broadcast and saved, without pickle.

A state tree is what `state_dict()` returns: containers of plain values, tensors and NumPy arrays. It is
split into a *skeleton*, a JSON text in which each tensor is a numbered slot, and the list of tensors, which
has this process's part of a DTensor. Processes of other workers have other meshes of the same dimensions: a
`Layout` names those, and what is made of it lies on this process's own mesh.
What `torch.load(path, weights_only=True)` refuses, as arrays and deques, is a marked dict there and in files.
"""

from __future__ import annotations

import copyreg
import json
import sys
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Sequence
from datetime import date, time, timedelta, timezone
from enum import Enum
from functools import partial
from pathlib import PurePath
from typing import Any

import msgspec
import numpy as np
import torch

from swell.train.collective.pieces import is_shard, local

Tree = Any  #: nested dict, list, tuple, set, deque, None, bool, int, float, complex, str, Tensor, array

#: A container becomes an object of one member, whose name tells the kind; a plain value stays itself.
_DICT_TAGS: dict[type, str] = {dict: "dict", OrderedDict: "ordered", Counter: "counter"}
_DICTS: dict[str, type] = {tag: kind for kind, tag in _DICT_TAGS.items()}

_ARRAY = "swell.array"  #: the only key of a dict that stands for an array, with a tensor of its values
_DEQUE = "swell.deque"  #: the only key of a dict that stands for a deque, with its `maxlen` and its items
_MADE = "swell.made"  #: begins a tuple of what a type makes a value of; a tuple may be a key

#: What JSON has as it is.
_PLAIN = frozenset({bool, int, float, str, type(None)})
_new = vars(copyreg)["__newobj__"]

#: Values that do not change, and are found or made again by their types; so are named tuples.
MADE_AGAIN = (PurePath, date, time, timedelta, timezone, Enum, frozenset)


class Slot(int):
    """The number of a tensor, where one belongs."""


class EncodeError(TypeError):
    """A state tree holds something that is neither a plain value, nor a container of these, nor a tensor."""


def encode(tree: Tree, name: str = "state") -> tuple[str, list[torch.Tensor]]:
    """Split a state tree into its skeleton (JSON) and its tensors (detached, not copied).

    Args:
        name: what the tree is called in an error message.

    Raises:
        EncodeError: with the path of the value that cannot be encoded.
    """
    tensors: list[torch.Tensor] = []
    return json.dumps(_skeleton(tree, name, tensors)), tensors


def decode(
    skeleton: str, tensors: Sequence[torch.Tensor], *, for_file: bool = False, are_whole: bool = False
) -> Tree:
    """The tree again; `tensors` are put in its slots, and arrays are of host memory.

    Args:
        for_file: leave marked dicts as they are. To encode and decode what was read later gives the tree.
        are_whole: none of them is a part of which a DTensor is to be made.
    """
    return _tree(json.loads(skeleton), _filler(tensors, are_whole), None if for_file else _made)


def completed(tree: Tree) -> Tree:
    """A tree that was decoded, with values whose types the script has imported since.

    Raises LookupError: it has not imported one yet.
    """
    try:
        skeleton, tensors = encode(tree)
    except EncodeError:  # it was never encoded
        return tree
    return _tree(json.loads(skeleton), _filler(tensors), partial(_made, is_last=True))


def slots(skeleton: str) -> Tree:
    """The tree with a `Slot` in place of each tensor."""
    return _tree(json.loads(skeleton), lambda slot, layout=None: Slot(slot), None)


def layouts(skeleton: str) -> dict[int, Layout]:
    """How tensors lie that this process has a part of, by their slots."""
    told: dict[int, Layout] = {}

    def fill(slot: int, layout: Any = None) -> None:
        if layout is not None:
            told[slot] = msgspec.convert(layout, Layout)

    _tree(json.loads(skeleton), fill, None)
    return told


def _filler(tensors: Sequence[torch.Tensor], are_whole: bool = False) -> Callable[..., torch.Tensor]:
    def fill(slot: int, layout: Any = None) -> torch.Tensor:
        is_whole = layout is None or are_whole
        return tensors[slot] if is_whole else assembled(tensors[slot], msgspec.convert(layout, Layout))

    return fill


def _skeleton(value: Tree, path: str, tensors: list[torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        return _slot(value, path, tensors)
    # First of all, for a member of an enumeration may be a number or a text.
    if (isinstance(value, MADE_AGAIN) or is_record(value)) and (recipe := _recipe(value)):
        return _skeleton((_MADE, *recipe), path, tensors)
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, complex):
        return {"complex": [value.real, value.imag]}
    if isinstance(value, np.generic) and not isinstance(item := value.item(), np.generic):
        return _skeleton(item, path, tensors)
    if isinstance(value, np.ndarray) and is_of_numbers(value):
        own = value.astype(value.dtype.newbyteorder("="))  # a copy
        return _marked(_ARRAY, _slot(torch.from_numpy(own), path, tensors))
    if type(value) in _DICT_TAGS or isinstance(value, dict):
        tag = _DICT_TAGS.get(type(value), "dict")
        return {
            tag: [
                [_key(key, path), _skeleton(item, f"{path}[{key!r}]", tensors)]
                for key, item in [*value.items()]  # a thread of the script may add some meanwhile
            ]
        }
    if isinstance(value, bytes):
        return _skeleton((_MADE, "builtins:bytes", (*value,)), path, tensors)
    if isinstance(value, list | tuple):
        tag = "list" if isinstance(value, list) else "tuple"
        if _PLAIN.issuperset(map(type, items := [*value])):  # as a curve: a call for each takes long
            return {tag: items}
        return {tag: [_skeleton(item, f"{path}[{index}]", tensors) for index, item in enumerate(items)]}
    if isinstance(value, set | deque):
        items = [_skeleton(item, f"an item of {path}", tensors) for item in [*value]]
        return {"set": items} if isinstance(value, set) else _marked(_DEQUE, {"list": [value.maxlen, *items]})
    raise EncodeError(
        f"{path} is a {type(value).__module__}.{type(value).__qualname__}, which cannot be sent or saved; "
        "a state_dict may hold numbers, strings, None, tensors, arrays of numbers, and containers of these: "
        "convert it in state_dict() and back in load_state_dict()"
    )


def _recipe(value: Any) -> tuple[Any, ...]:
    """MODULE:NAME of a member, or of a type and what that makes the value of; empty: nothing finds it."""
    own = type(value)
    if isinstance(value, Enum) and value.name in own.__members__:
        name = f"{own.__module__}:{own.__qualname__}.{value.name}"
        return (name,) if finds(name, value) else ()
    make, args = value.__reduce_ex__(2)[:2]
    kind, items = (args[0], args[1:]) if make is _new else (make, args)
    name = f"{kind.__module__}:{kind.__qualname__}"
    if not finds(name, kind) and not is_record(value):
        return ()
    return name, *(tuple(item) if isinstance(item, list) else item for item in items)  # a list: a frozenset's


def _marked(mark: str, content: Any) -> Any:
    return {"dict": [[mark, content]]}


def is_of_numbers(array: np.ndarray) -> bool:
    """Whether a tensor can hold it: there is none of long doubles."""
    return array.dtype.kind in "biufc" and array.dtype.itemsize <= (16 if array.dtype.kind == "c" else 8)


def _slot(value: torch.Tensor, path: str, tensors: list[torch.Tensor]) -> dict[str, Any]:
    if is_shard(value):
        try:
            layout = msgspec.to_builtins(layout_of(value))
        except TypeError as error:
            raise EncodeError(f"{path} has {error}; only those of torch can be sent or saved") from error
        return {"shard": [_slot(local(value), path, tensors)["tensor"], layout]}
    if value.layout != torch.strided or value.is_quantized or value.is_meta:
        raise EncodeError(f"{path} is a {value.layout} tensor; only dense tensors can be sent or saved")
    tensors.append(value.detach().resolve_conj().resolve_neg())  # a lazy view has no bytes of its own
    return {"tensor": len(tensors) - 1}


def _key(key: Any, path: str) -> Any:
    tensors: list[torch.Tensor] = []
    told = _skeleton(key, f"the key {key!r} of {path}", tensors)
    if tensors:
        raise EncodeError(f"{path} has a tensor as a key, or in one; no other process would find it by that")
    return told


def _tree(node: Any, fill: Callable[..., Any], make: Callable[[tuple[Tree, ...]], Tree] | None) -> Tree:
    """`fill`: the tensor of a slot, and of a layout if that is told.

    `make`: what a marked tuple stands for; None: marks are left as they are.
    """
    if not isinstance(node, dict):
        return node
    [(tag, content)] = node.items()
    if tag == "tensor":
        return fill(content)
    if tag == "shard":
        return fill(content[0], content[1])
    if tag == "complex":
        return complex(*content)
    tree = partial(_tree, fill=fill, make=make)
    if tag in _DICTS:
        pairs = [(tree(key), tree(item)) for key, item in content]
        return _unmarked(pairs) if tag == "dict" and make is not None else _DICTS[tag](dict(pairs))
    values = {"list": list, "tuple": tuple, "set": set}[tag](map(tree, content))
    return make(values) if tag == "tuple" and make is not None else values


def _unmarked(pairs: list[tuple[Any, Tree]]) -> Tree:
    """A dict of these, or the array or deque that it stands for."""
    match pairs:
        case [(key, torch.Tensor() as values)] if key == _ARRAY:
            return values.cpu().numpy()
        case [(key, [maxlen, *items])] if key == _DEQUE:
            return deque(items, maxlen)
    return dict(pairs)


def _made(values: tuple[Tree, ...], is_last: bool = False) -> Tree:
    """The tuple, or what it stands for, as soon as the type of that is imported."""
    match values:
        case (mark, str() as kind, *items) if mark == _MADE:
            try:
                found = find(kind)
            except LookupError:
                if "<locals>" in kind:  # a record of a function of the script: `put_back` has the type
                    return tuple(items)
                if is_last:
                    raise
                return values
            if isinstance(found, Enum):
                return found
            is_type = isinstance(found, type)
            if not is_type or not (issubclass(found, (*MADE_AGAIN, bytes)) or _has_fields(found)):
                raise TypeError(f"a state that is read may not call {kind}, which is no type of plain values")
            return found(*items)
    return values


def is_record(value: Any) -> bool:
    """Whether it is a named tuple."""
    return _has_fields(type(value))


def _has_fields(kind: type) -> bool:
    return issubclass(kind, tuple) and hasattr(kind, "_make")


def find(name: str) -> Any:
    """Return what a module has that is imported, by MODULE:NAME. Raises LookupError."""
    module, _, path = name.partition(":")
    found: Any = sys.modules.get(module)
    for part in path.split("."):
        found = getattr(found, part, None)
    if found is None:
        raise LookupError(f"there is no {path} in {module} here")
    return found


def finds(name: str, thing: Any) -> bool:
    """Whether another process finds this by the name."""
    try:
        return find(name) is thing
    except LookupError:
        return False


#: What placements are made of, by their types.
_ARGUMENTS = {
    "Shard": ["dim"],
    "_StridedShard": ["dim", "split_factor"],
    "Replicate": [],
    "Partial": ["reduce_op"],
}
#: Of this process, by their dimensions, and by the names of these alone: filled as it encodes its own state.
_meshes: dict[object, Any] = {}


class Layout(msgspec.Struct, frozen=True):
    """How the processes of a worker have a tensor among them."""

    shape: tuple[int, ...]  #: of the whole tensor
    stride: tuple[int, ...]
    placements: list[tuple[str, dict[str, Any]]]  #: types and arguments
    names: list[str] | None  #: of the mesh's dimensions
    sizes: tuple[int, ...]  #: of these


def layout_of(tensor: torch.Tensor) -> Layout:
    """How a DTensor lies. Raises TypeError: a placement is none of torch's own."""
    mesh, placements = tensor.device_mesh, tensor.placements  # type: ignore[attr-defined]
    names = mesh.mesh_dim_names and list(mesh.mesh_dim_names)
    layout = Layout(tensor.shape, tensor.stride(), [*map(_told, placements)], names, mesh.shape)
    _meshes.setdefault(str((names, *mesh.shape)), mesh)
    _meshes.setdefault(str(names), mesh)
    return layout


def assembled(part: torch.Tensor, layout: Layout | None) -> torch.Tensor:
    """The DTensor of which this process has the part. Raises LookupError: it has no such mesh."""
    if layout is None:
        return part
    from torch.distributed.tensor import DTensor
    from torch.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta

    form = TensorMeta(torch.Size(layout.shape), layout.stride, part.dtype)
    spec = DTensorSpec(mesh_of(layout), _placements(layout), form)
    return DTensor(part, spec, requires_grad=False)  # `from_local` moves a copy in host memory to a GPU


def empty(layout: Layout, dtype: torch.dtype) -> torch.Tensor:
    """Room for what lies so, and for all of it in a process that has no such mesh."""
    from torch.distributed import tensor

    try:
        mesh = mesh_of(layout)
    except LookupError:
        return torch.empty(layout.shape, dtype=dtype)
    return tensor.empty(layout.shape, dtype=dtype, device_mesh=mesh, placements=_placements(layout))


def mesh_of(layout: Layout) -> Any:
    """This process's mesh of the same dimensions. Raises LookupError: it has none."""
    mesh = _meshes.get(str((layout.names, *layout.sizes)), _meshes.get(str(layout.names)))
    if mesh is None:
        raise LookupError(
            f"the state is divided over a mesh with the dimensions {layout.names}, and this script has none: "
            "run the script that wrote the state"
        )
    return mesh


def _told(placement: Any) -> tuple[str, dict[str, Any]]:
    kind = type(placement).__name__
    if kind not in _ARGUMENTS:
        raise TypeError(f"the placement {placement!r} of type {kind}")
    return kind, {name: getattr(placement, name) for name in _ARGUMENTS[kind]}


def _placements(layout: Layout) -> tuple[Any, ...]:
    from torch.distributed.tensor import placement_types

    return tuple(getattr(placement_types, kind)(**arguments) for kind, arguments in layout.placements)

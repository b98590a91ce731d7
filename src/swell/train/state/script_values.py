"""Values of a script that are state, as they are saved, compared and put back.

Some are so plainly: numbers, texts, tensors and containers of these. A thread of the script may change a
container meanwhile: each is copied at once before it is gone through. Objects that are not those of the
loop's beginning are told by their types, and made again: a loss function such as `nn.SmoothL1Loss()` in place
of `nn.MSELoss()` is its type and a few plain attributes. A function, or a member of an enumeration, is found
by its name. Where an object has parameters, or its type cannot be found by its name, another process can only
put its state into one of that type.
"""

from __future__ import annotations

import math
import re
import sys
from collections import deque
from collections.abc import Iterator, Mapping, Sized
from enum import Enum
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, MemberDescriptorType
from typing import Any
from zlib import crc32

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, Sampler

from swell.train.data.stateful import GENERATORS, as_stateful
from swell.train.state import codec
from swell.train.state.checksum import checksum
from swell.train.state.codec import find, finds, is_record
from swell.wire.library_paths import is_library

#: Types of values that need no copy.
UNCHANGING = frozenset({bool, int, float, complex, str, type(None), type(Path())})
#: What another process finds by its name.
NAMED = (FunctionType, BuiltinFunctionType, Enum)
#: Functions of Python's own modules that are no arithmetic are in no state: it could name `os.system`.
_PYTHON = "|".join(sorted(sys.stdlib_module_names - {"builtins", "cmath", "math", "operator", "statistics"}))
_OF_SYSTEM = re.compile(rf"(?:{_PYTHON})[.:]|builtins:(?:__|breakpoint|compile|eval|exec|input|open)")
#: Attributes that every module has from torch.
_OF_MODULES = frozenset(vars(nn.Module()))

#: The type, attributes, buffers and mode of each part of a module, by its path, and what it has beside these.
Form = dict[str, dict[str, Any]]
#: A larger container of plain values is not saved. Its tensors do not count.
MAX_BYTES = 2**24
#: What a value takes in a container, and a tensor or an array, many of which take long to save.
VALUE_BYTES, _TENSOR_BYTES = 64, 2048
#: How deep objects that are made again may hold others.
MAX_MADE = 4
#: Of a container that is too large to be saved so many items are compared.
NUM_COMPARED = 1024

SCALARS = (bool, int, float, complex, str, type(None), np.generic, *codec.MADE_AGAIN)
_CONTAINERS = (list, tuple, set, deque)
_NO_OBJECTS = (*SCALARS, type, DataLoader, Dataset, Sampler)
_OF_STATEFUL = ("state_dict", "load_state_dict")

#: A value with its kind, of what a codec takes.
Packed = dict[str, Any]


def is_object(value: Any) -> bool:
    """Whether it saves itself, or is a generator of random numbers."""
    if isinstance(value, _NO_OBJECTS):
        return False
    # By its type: an instance may claim any attribute, as a dict whose `__getattr__` is its `get`.
    return isinstance(value, GENERATORS) or all(hasattr(type(value), method) for method in _OF_STATEFUL)


def is_plain(value: Any) -> bool:
    """Whether it is a number, a text, a tensor, or a container of these that is not too large."""
    return size_of(value) <= MAX_BYTES


def size_of(value: Any, around: tuple[int, ...] = ()) -> float:
    """Return the bytes of a plain value, of what its tensors hold apart; of others it is infinite.

    Beyond `MAX_BYTES` it is not counted to the end.

    Args:
        around: containers that it stands in. One that holds itself is not plain.
    """
    if isinstance(value, SCALARS):
        return len(value) * (1 if isinstance(value, str) else VALUE_BYTES) if isinstance(value, Sized) else 0
    if isinstance(value, torch.Tensor):
        return _TENSOR_BYTES if value.grad_fn is None and value.layout == torch.strided else math.inf
    if isinstance(value, np.ndarray):
        is_file = isinstance(value, np.memmap) or isinstance(value.base, np.memmap)
        return _TENSOR_BYTES if value.dtype.kind in "biufc" and not is_file else math.inf
    is_known = isinstance(value, _CONTAINERS) and type(value).__module__ in ("builtins", "collections")
    if not (is_known or isinstance(value, dict) or is_record(value)) or id(value) in around:
        return math.inf
    size: float = VALUE_BYTES * len(value)
    if size <= MAX_BYTES:
        for item in [*value, *value.values()] if isinstance(value, dict) else [*value]:
            size += size_of(item, (*around, id(value)))
            if size > MAX_BYTES:
                break
    return size


def wrap(value: Any) -> Packed:
    """The value with its kind."""
    if is_object(value):
        form = {"form": form_of(value)} if isinstance(value, nn.Module) else {}
        return {"object": state_of(value), "kind": kind_of(value), **form}
    return {"value": value}


def pack(value: Any) -> Packed | None:
    """The value as it is saved; None if it cannot be."""
    if isinstance(value, NAMED):
        name = name_of(value)
        return None if name is None else {"named": name}
    packed = wrap(value)
    try:
        codec.encode(packed)
    except codec.EncodeError:
        return None
    return packed


def is_another(one: Any, other: Any) -> bool:
    """Whether these marks are of two objects, functions or the like, and not of what has changed in one."""
    if not isinstance(one, tuple) or not isinstance(other, tuple) or one[0] != other[0]:
        return False
    return one[1] != other[1] if one[0] == "object" else one[0] == "named" and one != other


def state_of(value: Any) -> Any:
    """What an object says of itself, which may not have been meant for this."""
    try:
        return as_stateful(value).state_dict()
    except Exception:  # noqa: BLE001 - of the script's own code
        return None


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """The tensors that a plain value holds."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, _CONTAINERS):
        for item in [*value]:
            yield from tensors_in(item)
    elif isinstance(value, dict):
        yield from tensors_in(list(value.values()))


def unpack(own: Any, packed: Packed) -> Any:
    """The value that was packed: in the object, container or tensor `own` where that is of its kind."""
    if "object" in packed:
        return put_object(own, packed)
    if "named" in packed:
        return _found(packed["named"])
    if "made" in packed:  # its attributes or items are put into it next
        kind = None if kind_of(own) == packed["made"] else _found(packed["made"])
        own = own if kind is None else kind.__new__(kind)
        if isinstance(own, list):
            del own[len(packed["keys"]) :]
        elif isinstance(own, dict):
            for key in own.keys() - {*packed["keys"]}:
                del own[key]
        return own
    return put_back(own, packed["value"])


def put_back(own: Any, value: Any) -> Any:
    """The value, in the container or tensor `own` where that is of its kind."""
    if own is value:
        return own
    if isinstance(own, list) and isinstance(value, list):
        own[:] = [*map(put_back, own, value), *value[len(own) :]]
        return own
    if isinstance(own, dict) and isinstance(value, dict):
        items = {key: put_back(own.get(key), item) for key, item in value.items()}
        own.clear()
        own.update(items)
        return own
    if isinstance(own, deque) and isinstance(value, deque) and own.maxlen == value.maxlen:
        own.clear()
        own.extend(value)
        return own
    if isinstance(own, set) and isinstance(value, set):
        own &= value
        own |= value
        return own
    if isinstance(own, tuple) and type(value) in (tuple, type(own)) and len(own) == len(value):
        # In place: the script may hold its tensors elsewhere, too.
        return getattr(own, "_make", tuple)(map(put_back, own, value))
    if isinstance(own, np.ndarray) and isinstance(value, np.ndarray):
        if own.shape != value.shape or not own.flags.writeable:
            return value
        own[...] = value
        return own
    if not isinstance(own, torch.Tensor) or not isinstance(value, torch.Tensor):
        return value
    if own.shape != value.shape or own.dtype != value.dtype or own.layout != value.layout:
        return value.to(own.device)
    with torch.no_grad(), torch.inference_mode(own.is_inference()):  # one of that mode changes in it alone
        return own.copy_(value)


def copied(value: Any) -> Any:
    """A copy that shares nothing with it."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, list | tuple):
        # Losses so far, say, which each step copies: a call for each would take eight times as long.
        items = [item if type(item) in UNCHANGING else copied(item) for item in value]
        return items if isinstance(value, list) else getattr(value, "_make", tuple)(items)
    if isinstance(value, np.ndarray | set):
        return value.copy()
    if isinstance(value, deque):
        return deque(map(copied, [*value]), value.maxlen)
    if isinstance(value, dict):
        twin = value.copy()  # an OrderedDict stays one
        for key, item in twin.items():
            twin[key] = copied(item)  # `update` of a Counter would count
        return twin
    return value


def mark(value: Any) -> Any:
    """Equal for equal values."""
    if isinstance(value, torch.Tensor):
        if value.layout != torch.strided or value.is_meta or value.is_quantized:  # is never saved
            return ("tensor", tuple(value.shape), str(value.layout))
        return ("tensor", tuple(value.shape), _sum_of_elements(value))
    if isinstance(value, np.ndarray):
        return ("array", value.shape, crc32(np.ascontiguousarray(value).view(np.uint8).data))
    if isinstance(value, NAMED):
        return ("named", kind_of(value), getattr(getattr(value, "__code__", None), "co_firstlineno", 0))
    if is_object(value):
        made = text_of(form_of(value)) if isinstance(value, nn.Module) else ""
        return ("object", kind_of(value), made, mark(state_of(value)))
    if isinstance(value, dict):
        return ("dict", _sum_of([(repr(key), mark(item)) for key, item in [*value.items()]]))
    if isinstance(value, set):
        return ("set", _sum_of(sorted(map(repr, [*value]))))
    if isinstance(value, _CONTAINERS):
        items = [*value]
        is_flat = UNCHANGING.issuperset(map(type, items))
        return (type(value).__name__, _sum_of(items if is_flat else [*map(mark, items)]))
    return repr(value) if isinstance(value, SCALARS) else None


def mark_of_large(value: Any) -> Any:
    """Another one if a container that is too large to be saved has grown or, as a rule, changed."""
    items = [*value.items()] if isinstance(value, dict) else [*value]
    shown = items[:: 1 + len(items) // NUM_COMPARED]
    return ("large", len(items), _sum_of([mark(item) if is_plain(item) else id(item) for item in shown]))


def _sum_of_elements(tensor: torch.Tensor) -> int:
    if tensor.is_cuda:
        return int(checksum(tensor))
    elements = tensor.detach().resolve_conj().resolve_neg().reshape(-1).contiguous()
    return crc32(elements.view(torch.uint8).cpu().numpy().data)


def _sum_of(items: list[Any]) -> int:
    return crc32(repr(items).encode(errors="surrogatepass"))


def mark_of_kind(value: Any) -> Any:
    """Equal for values of one type."""
    return ("object", kind_of(value), "", None)


# ---------------------------------------------------------------- objects that are made again
def kind_of(thing: Any) -> str:
    """MODULE:NAME of a type, of a function or of a member of an enumeration."""
    if isinstance(thing, FunctionType | BuiltinFunctionType):
        return f"{thing.__module__}:{thing.__qualname__}"
    name = f"{type(thing).__module__}:{type(thing).__qualname__}"
    return f"{name}.{thing.name}" if isinstance(thing, Enum) else name


def name_of(thing: Any) -> str | None:
    """MODULE:NAME by which another process finds a function or a member; None: it has no such name."""
    short = "" if isinstance(thing, Enum) else thing.__name__
    places = (kind_of(thing), f"torch:{short}", f"torch.nn.functional:{short}")
    name = next((place for place in places if finds(place, thing)), None)
    return name if name and (isinstance(thing, Enum) or not _OF_SYSTEM.match(name)) else None


def _found(name: str) -> Any:
    """What a state names that is read. Raises TypeError: no state could have been saved with that."""
    thing = find(name)
    if can_be_put(thing) if isinstance(thing, type) else isinstance(thing, NAMED) and name_of(thing):
        return thing
    raise TypeError(f"a state that is read may not name {name}: no state could have been saved with it")


def can_be_put(kind: type) -> bool:
    """Whether an object of this type can be made again: a list or a dict, or of the script's own classes."""
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    is_script = file is not None and not is_library(file)
    return kind in (list, dict) or (is_script and finds(f"{kind.__module__}:{kind.__qualname__}", kind))


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


def can_be_made(thing: Any, depth: int = 0) -> bool:
    """Whether another process can make a value, a function or an object again, with all that it holds."""
    if isinstance(thing, NAMED):
        return name_of(thing) is not None
    if isinstance(thing, nn.Module):
        return not any(part["more"] for part in form_of(thing).values())
    if is_plain(thing):
        return True
    if type(thing) in (list, dict):
        if isinstance(thing, dict) and not all(isinstance(key, SCALARS) for key in thing):
            return False
        held = thing.values() if isinstance(thing, dict) else thing
    else:
        if is_object(thing) or not can_be_put(type(thing)):
            return False
        held = attributes_of(thing).values()
    return depth < MAX_MADE and all(can_be_made(each, depth + 1) for each in held)


def attributes_of(thing: Any) -> dict[str, Any]:
    """Return the attributes of an object or a class, also those in `__slots__`."""
    own = dict(vars(thing)) if hasattr(thing, "__dict__") else {}
    for kind in () if isinstance(thing, type) else type(thing).__mro__:
        slots = (key for key, each in vars(kind).items() if isinstance(each, MemberDescriptorType))
        own |= {key: getattr(thing, key) for key in slots if hasattr(thing, key)}
    return own


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
            vars(own.get_submodule(path)).update(part["attributes"], training=part["is_training"])
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

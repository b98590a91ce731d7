"""Values that are plainly state, as they are saved, compared and put back.

A thread of the script may change a container meanwhile: each is copied at once before it is gone through.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, Sampler

from swell.train.data.stateful import GENERATORS, as_stateful
from swell.train.state import codec
from swell.train.state.script_objects import (
    NAMED,
    find,
    form_of,
    kind_of,
    name_of,
    put_object,
    text_of,
)

#: Larger containers are data, not state.
MAX_ITEMS = 2000
#: Elements of a tensor that are compared.
NUM_COMPARED = 1024
#: A number as near to a clock's is a time.
NEAR_CLOCK_S = 1e5

SCALARS = (bool, int, float, complex, str, type(None), np.generic)
_CONTAINERS = (list, tuple, set, deque)
_NO_OBJECTS = (*SCALARS, type, DataLoader, Dataset, Sampler)
_OF_STATEFUL = ("state_dict", "load_state_dict")

#: A value with its kind, of what a codec takes.
Packed = dict[str, Any]


def is_object(value: Any) -> bool:
    """Whether it saves itself, or is a generator of random numbers."""
    if isinstance(value, _NO_OBJECTS):
        return False
    # As `isinstance(value, Stateful)`, which takes ten times as long.
    return isinstance(value, GENERATORS) or all(hasattr(value, method) for method in _OF_STATEFUL)


def is_plain(value: Any) -> bool:
    """Whether it is a number, a text, a tensor, or a container of these that is not too large."""
    return _num_items(value, MAX_ITEMS) <= MAX_ITEMS


def _num_items(value: Any, most: int) -> int:
    """The number of values in a plain one; more than `most` if it is none."""
    if isinstance(value, SCALARS):
        return 1
    if isinstance(value, torch.Tensor):
        return 1 if value.grad_fn is None and value.layout == torch.strided else most + 1
    if isinstance(value, np.ndarray):
        is_file = isinstance(value, np.memmap) or isinstance(value.base, np.memmap)
        return 1 if value.dtype.kind in "biufc" and not is_file else most + 1
    if isinstance(value, dict):
        items: Iterable[Any] = [*value, *value.values()] if len(value) <= most else ()
    elif isinstance(value, _CONTAINERS) and type(value).__module__ in ("builtins", "collections"):
        items = [*value] if len(value) <= most else ()
    else:
        return most + 1
    num = 1
    if len(value) > most:
        return most + 1
    for item in items:
        num += _num_items(item, most)
        if num > most:
            return most + 1
    return num


def is_time(value: Any) -> bool:
    """Whether a number is likely to be the time at which something was done."""
    if not isinstance(value, float):
        return False
    return any(abs(value - clock()) < min(NEAR_CLOCK_S, clock() / 2) for clock in _CLOCKS)


_CLOCKS = (time.time, time.monotonic, time.perf_counter)


def wrap(value: Any) -> Packed:
    """The value with its kind."""
    if is_object(value):
        form = {"form": form_of(value)} if isinstance(value, nn.Module) else {}
        return {"object": _state_of(value), "kind": kind_of(value), **form}
    if isinstance(value, np.ndarray):
        return {"array": torch.from_numpy(np.ascontiguousarray(value))}
    if isinstance(value, np.generic):
        return {"value": value.item()}
    if isinstance(value, deque):
        return {"deque": list(value), "maxlen": value.maxlen}
    if isinstance(value, set):
        return {"set": list(value)}
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


def _state_of(value: Any) -> Any:
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
        return find(packed["named"])
    if "array" in packed:
        array = packed["array"].cpu().numpy()
        if isinstance(own, np.ndarray) and own.shape == array.shape and own.flags.writeable:
            own[...] = array
            return own
        return array
    if "deque" in packed:
        if isinstance(own, deque) and own.maxlen == packed["maxlen"]:
            own.clear()
            own.extend(packed["deque"])
            return own
        return deque(packed["deque"], packed["maxlen"])
    if "set" in packed:
        return set(packed["set"])
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
        items = [copied(item) for item in value]
        return items if isinstance(value, list) else tuple(items)
    if isinstance(value, dict):
        twin = value.copy()  # an OrderedDict stays one
        twin.update([(key, copied(item)) for key, item in twin.items()])
        return twin
    return value


def mark(value: Any) -> Any:
    """Equal for equal values; of large tensors not every element is looked at."""
    if isinstance(value, torch.Tensor):
        if value.layout != torch.strided or value.is_meta:  # is never saved
            return ("tensor", tuple(value.shape), str(value.layout))
        if value.numel() <= NUM_COMPARED:
            return ("tensor", tuple(value.shape), repr(value.detach().flatten().tolist()))
        flat = value.detach().view(-1) if value.is_contiguous() else value.new_empty(0)  # a copy costs more
        shown = flat[:: max(1, len(flat) // NUM_COMPARED)].tolist()
        version = 0 if value.is_inference() else value._version
        return ("tensor", tuple(value.shape), version, repr(shown))
    if isinstance(value, np.ndarray):
        flat_array = (
            value.reshape(-1) if value.flags.c_contiguous or value.size <= NUM_COMPARED else value[:0]
        )
        step = max(1, flat_array.size // NUM_COMPARED)
        return ("array", value.shape, repr(flat_array[::step].tolist()))
    if isinstance(value, NAMED):
        return ("named", kind_of(value), getattr(getattr(value, "__code__", None), "co_firstlineno", 0))
    if is_object(value):
        made = text_of(form_of(value)) if isinstance(value, nn.Module) else ""
        return ("object", kind_of(value), made, mark(_state_of(value)))
    if isinstance(value, dict):
        return ("dict", tuple([(repr(key), mark(item)) for key, item in [*value.items()]]))
    if isinstance(value, set):
        return ("set", tuple(sorted(map(repr, [*value]))))
    if isinstance(value, _CONTAINERS):
        return (type(value).__name__, tuple(map(mark, [*value])))
    return repr(value) if isinstance(value, SCALARS) else None

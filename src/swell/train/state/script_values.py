"""Values of a script that are plainly state: which they are, and how they are compared, kept and filled.

A thread of the script may change a container meanwhile: each is copied at once before it is gone through.
"""

from __future__ import annotations

import marshal
import math
from collections import Counter, OrderedDict, deque
from collections.abc import Iterator
from operator import is_
from pathlib import Path
from types import BuiltinFunctionType, FunctionType
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
import torch

from swell.train.collective.pieces import checksum, local
from swell.train.data.stateful import GENERATORS, as_stateful
from swell.train.state import codec

#: In place of the value of a variable that has none.
UNBOUND = object()
#: Types of values that need no copy.
UNCHANGING = frozenset({bool, int, float, complex, str, type(None), type(Path())})
_NUMBERS = (np.bool_, np.integer, np.float16, np.float32, np.float64, np.complex64, np.complex128)
SCALARS = (bool, int, float, complex, str, type(None), *_NUMBERS, *codec.MADE_AGAIN)
_CONTAINERS = frozenset({list, tuple, set, deque, dict, OrderedDict, Counter})

#: A larger value is not saved. One in a container takes the time of so many bytes of a tensor.
MAX_BYTES, VALUE_BYTES = 2**30, 512
#: What an object may say of itself, if that is copied in each step.
MAX_LIGHT_BYTES = 2**16

#: A value with its kind, of what a codec takes.
Packed = dict[str, Any]


def is_object(value: Any) -> bool:
    """Whether it saves itself, or is a generator of random numbers."""
    # By its type: an instance may claim any attribute, as a dict whose `__getattr__` is its `get`.
    own = type(value)
    return isinstance(value, GENERATORS) or (
        hasattr(own, "state_dict") and hasattr(own, "load_state_dict") and not isinstance(value, type)
    )


def size_of(value: Any, around: tuple[int, ...] = ()) -> float:
    """Return the bytes of a plain value: a number, a text, a tensor, or a container of these.

    Of others it is infinite, and of a container that holds itself.
    """
    if isinstance(value, SCALARS):
        return VALUE_BYTES
    if isinstance(value, torch.Tensor):
        is_whole = value.layout == torch.strided and not (value.is_meta or value.is_quantized)
        return value.nbytes if value.grad_fn is None and is_whole else math.inf
    if isinstance(value, np.ndarray):
        is_file = isinstance(value, np.memmap) or isinstance(value.base, np.memmap)
        return value.nbytes if codec.is_of_numbers(value) and not is_file else math.inf
    if not (type(value) in _CONTAINERS or codec.is_record(value)) or id(value) in around:
        return math.inf
    items = _items_of(value)
    if UNCHANGING.issuperset(map(type, items)):
        return VALUE_BYTES * len(items)
    return sum(size_of(item, (*around, id(value))) for item in items)


def plain_attributes(thing: Any) -> dict[str, Any]:
    """Those attributes of an object that are plain values."""
    return {name: value for name, value in vars(thing).items() if size_of(value) < math.inf}


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """The tensors that a plain value holds."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict | list | tuple | set | deque):
        items = _items_of(value)
        for item in () if UNCHANGING.issuperset(map(type, items)) else items:
            yield from tensors_in(item)


def _items_of(container: Any) -> list[Any]:
    return [*container, *container.values()] if isinstance(container, dict) else [*container]


def kind_of(thing: Any) -> str:
    """The name of its type, or of the function or type that it is."""
    named = thing if isinstance(thing, type | FunctionType | BuiltinFunctionType) else type(thing)
    return f"{named.__module__}.{named.__qualname__}"


def wrap(value: Any) -> Packed:
    """The value, or the state of an object and its kind."""
    return {"object": state_of(value), "kind": kind_of(value)} if is_object(value) else {"value": value}


def state_of(value: Any) -> Any:
    """What an object says of itself; None: it cannot be saved, for it was not meant for this."""
    try:
        state = as_stateful(value).state_dict()
        codec.encode(state)
    except Exception:  # noqa: BLE001 - of the script's own code
        return None
    return state


def is_light(value: Any) -> bool:
    """Whether it is a generator, or another object whose state costs little to copy."""
    return isinstance(value, GENERATORS) or (is_object(value) and size_of(state_of(value)) <= MAX_LIGHT_BYTES)


def mark(value: Any) -> int | None:
    """Equal for equal values, by all of their bytes; None: it cannot be saved."""
    if isinstance(value, torch.Tensor | np.ndarray):
        return _mark_of_elements(value)
    try:
        return crc32(marshal.dumps(value, 2))  # a tenth of the time
    except ValueError:  # not of Python's own types alone
        pass
    try:
        skeleton, tensors = codec.encode(wrap(value))
    except codec.EncodeError:
        return None
    return crc32(repr((skeleton, [*map(_mark_of_elements, tensors)])).encode())


def _mark_of_elements(value: torch.Tensor | np.ndarray) -> int:
    if isinstance(value, torch.Tensor):
        value = local(value)
    if isinstance(value, torch.Tensor) and value.is_cuda:
        return int(checksum(value))
    if isinstance(value, torch.Tensor):
        value = value.detach().resolve_conj().resolve_neg().reshape(-1).contiguous().view(torch.uint8).numpy()
    return crc32(np.ascontiguousarray(value).reshape(-1).view(np.uint8).data)


def copied(value: Any) -> Any:
    """A copy that shares nothing with it, of what a codec takes."""
    skeleton, tensors = codec.encode(value)
    return codec.decode(skeleton, [tensor.clone() for tensor in tensors])


def fill(own: Any, value: Any) -> Any:
    """The value, in the container or tensor `own` where that is of its kind."""
    if isinstance(own, torch.Tensor) and isinstance(value, torch.Tensor):
        is_alike = own.shape == value.shape and own.dtype == value.dtype
        # What has a graph is of a step that is over; the script makes another one.
        return _set_content(own, value) if is_alike and own.grad_fn is None else value.to(own.device)
    if isinstance(own, np.ndarray) and isinstance(value, np.ndarray):
        is_alike = own.shape == value.shape and own.dtype == value.dtype and own.flags.writeable
        return _set_content(own, value) if is_alike else value
    if isinstance(own, tuple) and type(value) in (tuple, type(own)) and len(own) == len(value):
        # In place: the script may hold its tensors elsewhere, too. One that holds the same is no other one.
        items = [*map(fill, own, value)]
        return own if all(map(is_, own, items)) else getattr(own, "_make", tuple)(items)
    if isinstance(own, list) and isinstance(value, list):
        return _set_content(own, [*map(fill, own, value), *value[len(own) :]])
    if isinstance(own, dict) and isinstance(value, dict):
        return _set_content(own, {key: fill(own.get(key), item) for key, item in value.items()})
    is_alike = isinstance(own, deque) and isinstance(value, deque) and own.maxlen == value.maxlen
    is_alike = is_alike or (isinstance(own, set) and isinstance(value, set))
    return _set_content(own, value) if is_alike else value


def _set_content(own: Any, content: Any) -> Any:
    if isinstance(own, torch.Tensor):
        # A tensor of inference mode changes in that alone; to leave it lets gradients be recorded.
        with torch.inference_mode(own.is_inference()), torch.no_grad():
            own.copy_(content)
    elif isinstance(own, np.ndarray):
        own[...] = content
    elif isinstance(own, dict):
        own.clear()
        for key, item in content.items():
            own[key] = item  # `update` of a Counter would count
    elif isinstance(own, set):
        own &= content
        own |= content
    elif own is not content:
        own.clear()
        own.extend(content)
    return own


def fill_object(own: Any, packed: Packed) -> Any:
    """Give an object the state of another one of its type. Raises TypeError: it is of another type."""
    if kind_of(own) != packed["kind"]:
        raise TypeError(f"it was a {packed['kind']}, and here it is a {type(own).__name__}")
    if packed.get("object") is not None:
        as_stateful(own).load_state_dict(packed["object"])
    return own


class Kept(NamedTuple):
    """An object that may change, and what it holds now: tensors are copied, and items are kept alike."""

    own: Any
    content: Any


def keep(value: Any) -> Any:
    """What `bring_back` makes the same value of, in the same objects."""
    if type(value) in UNCHANGING:
        return value
    if is_object(value):
        return Kept(value, keep(state_of(value)))
    if isinstance(value, torch.Tensor):
        return Kept(value, value.detach().clone())
    if isinstance(value, np.ndarray | set):
        return Kept(value, value.copy())
    if isinstance(value, dict):
        return Kept(value, {key: keep(item) for key, item in [*value.items()]})
    if isinstance(value, list | deque | tuple):
        items = [*value]
        # Losses so far, say, which each step keeps: a call for each would take eight times as long.
        return Kept(value, items if UNCHANGING.issuperset(map(type, items)) else [*map(keep, items)])
    return value


def bring_back(kept: Any) -> Any:
    """The value that was kept, in the objects that it was in."""
    if not isinstance(kept, Kept):
        return kept
    own, content = kept
    if is_object(own):
        if (state := bring_back(content)) is not None:
            as_stateful(own).load_state_dict(state)
        return own
    if isinstance(own, dict):
        content = {key: bring_back(item) for key, item in content.items()}
    elif isinstance(own, list | deque | tuple):
        content = [*map(bring_back, content)]
    return own if isinstance(own, tuple) else _set_content(own, content)

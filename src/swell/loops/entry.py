"""What machine code of a loop needs to be called from outside: its arguments in one buffer of numbers."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

#: What `shim.c` calls the numbers of Python and of columns.
CODES = {"int": "I", "float": "F", "bool": "B"}
DTYPES = {"i": np.dtype(np.int64), "f": np.dtype(np.float64), "b": np.dtype(np.bool_)}


class CannotBuild(Exception):
    """A loop is called with, or returns, something that the library cannot take."""


@dataclass(slots=True)
class LoopEntry:
    """Types of a loop's arguments and results, and Python source that takes a buffer of arguments apart."""

    arguments: str = ""  #: as `shim.c` reads them
    returns: str = ""
    num_numbers: int = 0  #: in the buffer
    source: str = ""
    names: dict[str, object] = field(default_factory=dict)  #: that the source has, the loop itself apart


def entry_of(kernel: Callable[..., Any], arguments: Sequence[object]) -> LoopEntry:
    """Make the entry of a loop for calls with arguments of the same types.

    Raises:
        CannotBuild: an array is not contiguous or has another type of numbers, or the result is no number.
    """
    entry = LoopEntry()
    annotations = {name: str(value) for name, value in kernel.__annotations__.items()}
    result = annotations.pop("return", "None")
    words = re.findall(r"\w+", result.removeprefix("tuple"))
    if words != ["None"]:
        if not set(words) <= CODES.keys():
            raise CannotBuild(
                f"{kernel.__qualname__} returns {result}; return numbers, or write into an array"
            )
        entry.returns = "".join(CODES[word] for word in words)
    try:
        given = [_take(entry, value, annotations.get(name, "")) for name, value in _named(kernel, arguments)]
    except CannotBuild as error:
        raise CannotBuild(f"{kernel.__qualname__}: {error}") from error
    entry.num_numbers = max(entry.num_numbers, len(entry.returns))
    entry.source = _source(entry, given)
    return entry


def _named(kernel: Callable[..., Any], arguments: Sequence[object]) -> list[tuple[str, object]]:
    names = kernel.__code__.co_varnames[: kernel.__code__.co_argcount]
    return list(zip(names, arguments, strict=True))


def _take(entry: LoopEntry, value: object, annotation: str) -> str:
    """The Python expression for a value, which is added to the types."""
    if isinstance(value, np.ndarray):
        return _take_array(entry, value)
    if isinstance(value, tuple):
        return _take_tuple(entry, value)
    kind = annotation if annotation in CODES else _kind(value)
    entry.arguments += CODES[kind]
    number, entry.num_numbers = entry.num_numbers, entry.num_numbers + 1
    return {"int": f"ints[{number}]", "float": f"floats[{number}]", "bool": f"(ints[{number}] != 0)"}[kind]


def _kind(value: object) -> str:
    """Return the kind of a number in a tuple: bool, int or float. Raises CannotBuild for anything else."""
    for kind, types in (("bool", (bool, np.bool_)), ("int", (int, np.integer)), ("float", (float,))):
        if isinstance(value, types):
            return kind
    raise CannotBuild(f"a {type(value).__name__} among its arguments; loops take numbers, arrays and tuples")


def _take_array(entry: LoopEntry, array: np.ndarray[Any, Any]) -> str:
    code = array.dtype.kind
    if DTYPES.get(code) != array.dtype or not array.flags.c_contiguous:
        raise CannotBuild(
            f"an array of {array.dtype} among its arguments, contiguous: {array.flags.c_contiguous}; "
            "loops take contiguous ones of int64, float64 and bool"
        )
    entry.arguments += f"{code}{array.ndim}"
    first, entry.num_numbers = entry.num_numbers, entry.num_numbers + 1 + array.ndim
    shape = ", ".join(f"ints[{first + 1 + axis}]" for axis in range(array.ndim))
    entry.names[f"dtype_{code}"] = DTYPES[code].type
    return f"carray(address(ints[{first}]), ({shape},), dtype_{code})"


def _take_tuple(entry: LoopEntry, values: tuple[object, ...]) -> str:
    kind = type(values)
    entry.arguments += "("
    columns = ", ".join(_take(entry, value, "") for value in values)
    entry.arguments += ")"
    if kind is tuple:
        return f"({columns},)"
    entry.names[kind.__name__] = kind
    return f"{kind.__name__}({columns})"


def _source(entry: LoopEntry, given: Sequence[str]) -> str:
    kept = [
        f"    {'floats' if code == 'F' else 'ints'}[{place}] = " for place, code in enumerate(entry.returns)
    ]
    lines = [
        "def enter(numbers):",
        f"    ints = carray(numbers, ({entry.num_numbers},), dtype_i)",
        f"    floats = carray(numbers, ({entry.num_numbers},), dtype_f)",
        f"    result = kernel({', '.join(given)})",
    ]
    if len(kept) == 1:
        lines.append(f"{kept[0]}result")
    else:
        lines += [f"{place}result[{number}]" for number, place in enumerate(kept)]
    entry.names |= {f"dtype_{code}": DTYPES[code].type for code in "if"}
    return "\n".join(lines) + "\n"

"""One source for an inner loop: plain Python, or machine code that was built from it.

`python -m swell.loops` builds all loops into one library beside this file (`swell.loops.library`). A loop
that is not in it, because its source has changed since, is compiled by numba where that is installed.
"""

from __future__ import annotations

import importlib
import importlib.util
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar, cast

library: Any = None  #: what `swell.loops` has built; None: nothing
with suppress(ImportError):
    library = importlib.import_module("swell._loops")

Kernel = TypeVar("Kernel", bound=Callable[..., Any])

#: Below this many rows a call of a loop that was not built is over before the compiler would have been
#: imported (a second, and seconds more on the first use on a machine).
NUM_ROWS_WORTH_IT = 64

_parts: set[Callable[..., Any]] = set()
_small_parts: set[Callable[..., Any]] = set()
_machine_code: dict[Callable[..., Any], Any] = {}  #: of each loop for which there is some
_least_rows: float = NUM_ROWS_WORTH_IT if library is None else 0  #: for which machine code is looked for
_least_compiled: float = NUM_ROWS_WORTH_IT  #: for which a loop that was not built is compiled
_may_compile = True


def part(kernel: Kernel) -> Kernel:
    """Mark a loop that other loops may call, and that is compiled with them."""
    _parts.add(kernel)
    return kernel


def small_part(kernel: Kernel) -> Kernel:
    """Mark a part that is copied into the loops that call it.

    A call hands over every column of a named tuple, which takes longer than a few lines do.
    """
    _small_parts.add(kernel)
    return part(kernel)


def part_options(kernel: Callable[..., Any]) -> dict[str, Any]:
    """How numba is to compile a part: without what Python would need to call it, half of the work."""
    inline = "always" if kernel in _small_parts else "never"
    return {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "inline": inline}


def suited(kernel: Kernel, num_rows: int) -> Kernel:
    """Choose `kernel` as machine code, if that was built or is worth compiling, or as it is; both agree."""
    if num_rows < _least_rows:
        return kernel
    machine_code: Kernel | None = _machine_code.get(kernel)
    return machine_code or _find(kernel, num_rows)


def compile_always() -> None:
    """Use and compile machine code for few rows too, from now on.

    This is for a program that is about to make very many calls.
    """
    global _least_rows, _least_compiled
    _least_rows = _least_compiled = 0


def compile_never() -> None:
    """What was not built stays plain Python: for a process that answers in milliseconds."""
    global _may_compile
    _may_compile = False


def compiled(kernel: Kernel) -> Kernel:
    """`kernel` as machine code. Where it was not built, numba compiles it, and must be installed.

    It may use numbers, numpy arrays, named tuples of them and loops, and of our functions those that are a
    `part`. Machine code is of one state of the source: of the files of these functions, and of the numbers
    and columns of named tuples that they have of other files.
    """
    if kernel not in _machine_code:
        built = None if library is None else library.find(name_of(kernel), kernel)
        _machine_code[kernel] = _compile(kernel) if built is None else built
    return cast(Kernel, _machine_code[kernel])


def is_built(kernel: Callable[..., Any]) -> bool:
    """Whether the library has this loop as its source is now."""
    return library is not None and library.find(name_of(kernel), kernel) is not None


def name_of(kernel: Callable[..., Any]) -> str:
    """Its name in the library, another one for each state of its source."""
    return f"{kernel.__module__}.{kernel.__qualname__}_{_digest(cast(FunctionType, kernel)):08x}"


@contextmanager
def from_rows(num_rows: float) -> Iterator[None]:
    """Within it loops of fewer rows are plain Python, and those of more machine code, built or compiled."""
    global _least_rows, _least_compiled
    before = _least_rows, _least_compiled
    _least_rows = _least_compiled = num_rows
    try:
        yield
    finally:
        _least_rows, _least_compiled = before


@contextmanager
def replaced(make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Iterator[None]:
    """Within it `suited` gives what `make` makes of each loop, whatever the number of rows."""
    global _machine_code, _least_rows
    before = _machine_code, _least_rows
    _machine_code, _least_rows = _Made(make), 0
    try:
        yield
    finally:
        _machine_code, _least_rows = before


class _Made(dict[Callable[..., Any], Callable[..., Any]]):
    def __init__(self, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        super().__init__()
        self._make = make

    def get(self, kernel: Callable[..., Any], default: object = None) -> Callable[..., Any]:
        """Made at the first call."""
        if kernel not in self:
            self[kernel] = self._make(kernel)
        return self[kernel]


def _find(kernel: Kernel, num_rows: int) -> Kernel:
    """Machine code that was built, or that may be compiled now."""
    is_worth_it = _may_compile and num_rows >= _least_compiled and _has_compiler()
    return compiled(kernel) if is_worth_it or is_built(kernel) else kernel


@cache
def _has_compiler() -> bool:
    return importlib.util.find_spec("numba") is not None


def _compile(kernel: Kernel, **options: Any) -> Kernel:
    from numba import njit

    linked = linked_with(cast(FunctionType, kernel), _compile_part)
    # numba's cache tells code apart by name alone: code that Python cannot call has another one.
    ending = "_part" if options else ""
    linked.__qualname__ = name_of(kernel).removeprefix(f"{kernel.__module__}.") + ending
    try:
        return cast(Kernel, njit(cache=True, **options)(linked))
    except RuntimeError:  # numba found no folder that it may keep machine code in
        return cast(Kernel, njit(**options)(linked))


@cache
def _compile_part(kernel: FunctionType) -> Callable[..., Any]:
    return _compile(kernel, **part_options(kernel))


def linked_with(
    kernel: FunctionType, compile_part: Callable[[FunctionType], Callable[..., Any]]
) -> FunctionType:
    """The same function, but the parts that it calls are compiled ones."""
    called = {name: kernel.__globals__.get(name) for name in kernel.__code__.co_names}
    loops = {name: one for name, one in called.items() if isinstance(one, FunctionType) and one in _parts}
    parts = {name: compile_part(one) for name, one in loops.items()}
    twin = FunctionType(kernel.__code__, {**kernel.__globals__, **parts}, kernel.__name__)
    twin.__module__, twin.__qualname__ = kernel.__module__, kernel.__qualname__
    return twin


@cache
def _digest(kernel: FunctionType) -> int:
    """Checksum of a loop's source file, and of what it takes from other files.

    That is parts, numbers, and the columns of named tuples.
    """
    told: list[object] = [_crc(kernel.__code__.co_filename)]
    for name in sorted({*kernel.__code__.co_names, *map(str, kernel.__annotations__.values())}):
        value = kernel.__globals__.get(name)
        if isinstance(value, FunctionType) and value in _parts:
            told.append(_digest(value))
        elif isinstance(value, int | float):
            told.append((name, value))
        elif (columns := getattr(value, "_fields", None)) is not None:
            told.append((name, columns))
    return zlib.crc32(repr(told).encode())


@cache
def _crc(file: str) -> int:
    return zlib.crc32(Path(file).read_bytes())

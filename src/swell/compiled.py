"""One source for an inner loop: plain Python for small inputs, machine code for large ones."""

from __future__ import annotations

import math
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar, cast

Kernel = TypeVar("Kernel", bound=Callable[..., Any])

#: Below this many rows a call is over before the compiler would have been imported (a second, and
#: seconds more on the first use on a machine; then the machine code is read from a cache on disk).
NUM_ROWS_WORTH_IT = 64

_parts: set[Callable[..., Any]] = set()
_ready: set[Callable[..., Any]] = set()  #: that some thread has compiled within `compiling`
_always = False
_is_deferred = False
_is_kept = True
_here = threading.local()
_compiling: set[int] = set()  #: threads within `compiling`


def part(kernel: Kernel) -> Kernel:
    """A loop that kernels may call, and that is compiled with them."""
    _parts.add(kernel)
    return kernel


def suited(kernel: Kernel, num_rows: int) -> Kernel:
    """`kernel` itself, or the same compiled if there are many rows. Both give the same results."""
    if _always or (num_rows >= NUM_ROWS_WORTH_IT and not _is_deferred):
        machine_code: Kernel = compiled(kernel)
        return machine_code
    if not _compiling:  # a look at what is the thread's own takes longer, and this is asked very often
        return kernel
    portion: Portion | None = getattr(_here, "portion", None)
    return compiled(kernel) if portion is not None and portion.takes(kernel) else kernel


def compile_always() -> None:
    """From now on few rows are worth it too: for a program that is about to make very many calls."""
    global _always
    _always = True


def defer(is_deferred: bool) -> None:
    """While it is deferred, only a thread within `compiling` compiles, and other threads run plain Python.

    For a process that answers in milliseconds, where compiling takes seconds.
    """
    global _is_deferred
    _is_deferred = is_deferred


def is_kept() -> bool:
    """Whether all machine code so far is on disk for other processes."""
    return _is_kept


class Portion:
    """Which loops are machine code while a thread makes it: those that were before, and so many more."""

    def __init__(self, num_more: float) -> None:
        self._num_more = num_more
        self.is_all = True  #: no loop that was called had to stay plain Python

    def takes(self, kernel: Callable[..., Any]) -> bool:
        if kernel not in _ready:
            if self._num_more <= 0:
                self.is_all = False
                return False
            self._num_more -= 1
            _ready.add(kernel)
        return True


@contextmanager
def compiling(num_more: float = math.inf) -> Iterator[Portion]:
    """In this thread loops are compiled, for few rows too: at most so many that were not before."""
    thread, portion = threading.get_ident(), Portion(num_more)
    _here.portion = portion
    _compiling.add(thread)
    try:
        yield portion
    finally:
        _compiling.discard(thread)
        _here.portion = None


@cache
def compiled(kernel: Kernel) -> Kernel:
    """`kernel` as machine code.

    It may use numbers, numpy arrays, named tuples of them and loops, and of our functions those that are a
    `part`. The machine code on disk is made anew when a file of one of these functions changes, or a number
    or the columns of a named tuple that one of them has of another file.
    """
    global _is_kept
    from numba import njit

    linked = _link(cast(FunctionType, kernel))
    try:
        return cast(Kernel, njit(cache=True)(linked))
    except RuntimeError:  # numba found no folder that it may keep machine code in
        _is_kept = False
        return cast(Kernel, njit(linked))


def _link(kernel: FunctionType) -> FunctionType:
    """The same function, but the parts that it calls are compiled ones."""
    called = {name: kernel.__globals__.get(name) for name in kernel.__code__.co_names}
    parts = {
        name: compiled(one) for name, one in called.items() if isinstance(one, FunctionType) and one in _parts
    }
    twin = FunctionType(kernel.__code__, {**kernel.__globals__, **parts}, kernel.__name__)
    # Machine code on disk is found by this name: that of another version of a file is not even looked at.
    twin.__module__ = kernel.__module__
    twin.__qualname__ = f"{kernel.__qualname__}_{_digest(kernel):08x}"
    return twin


@cache
def _digest(kernel: FunctionType) -> int:
    """Of its file, and of what it has of others: parts, numbers, and the columns of named tuples."""
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

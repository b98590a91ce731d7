"""One source for an inner loop: plain Python for small inputs, machine code for large ones."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar, cast

Kernel = TypeVar("Kernel", bound=Callable[..., Any])

#: Below this many rows a call is over before the compiler would have been imported (a second, and
#: seconds more on the first use on a machine; then the machine code is read from a cache on disk).
NUM_ROWS_WORTH_IT = 64


def suited(kernel: Kernel, num_rows: int) -> Kernel:
    """`kernel` itself, or the same compiled if there are many rows. Both give the same results."""
    return compiled(kernel) if num_rows >= NUM_ROWS_WORTH_IT else kernel


@cache
def compiled(kernel: Kernel) -> Kernel:
    """`kernel` as machine code; it may use numbers, numpy arrays and loops, and call nothing of ours."""
    from numba import njit

    try:
        return cast(Kernel, njit(cache=True)(kernel))
    except RuntimeError:  # numba found no folder that it may keep machine code in
        return cast(Kernel, njit(kernel))

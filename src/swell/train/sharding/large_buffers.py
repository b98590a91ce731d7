"""Memory for large tensors that come and go in each step, apart from the heap.

On the heap they would lie among what stays, and what is free between is too small for the next one: it grows
to several times of what is used. And the first use of new memory costs several times what a copy does.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
import weakref

import torch


class LargeBuffers:
    """Buffers in host memory, each used by one tensor and its views at a time."""

    def __init__(self) -> None:
        self._buffers: list[mmap.mmap] = []
        #: What was lent, by the buffer's place: alive as long as a tensor is there.
        self._lent = weakref.WeakValueDictionary[int, memoryview]()

    def empty(self, size: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        """A flat tensor of so many elements, not filled. On devices torch's own allocator does as much."""
        num_bytes = size * dtype.itemsize
        if device.type != "cpu" or not num_bytes:
            return torch.empty(size, dtype=dtype, device=device)
        place = self._unused(num_bytes)
        lent = self._lent[place] = memoryview(self._buffers[place])
        return torch.frombuffer(lent, dtype=dtype, count=size)

    def _unused(self, num_bytes: int) -> int:
        """The smallest one with enough room and no more than twice as much; else a new one."""
        fitting = [
            (len(buffer), place)
            for place, buffer in enumerate(self._buffers)
            if num_bytes <= len(buffer) <= 2 * num_bytes and place not in self._lent
        ]
        if fitting:
            return min(fitting)[1]
        self._buffers.append(mmap.mmap(-1, num_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
        return len(self._buffers) - 1

    def clear(self) -> None:
        """Keep none for later. What tensors use stays as long as they do."""
        self._buffers.clear()
        self._lent.clear()


def trim_heap() -> None:
    """Give free memory of the heap back, which Swell's workers keep (`MALLOC_TRIM_THRESHOLD_`)."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc has it
        if trim is not None:
            trim(ctypes.c_size_t(0))

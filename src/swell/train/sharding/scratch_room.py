"""Room for tensors in files without a name, whose pages the kernel writes out where memory is short.

A whole state that is gathered to be saved may be larger than the memory that a worker may have.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from contextlib import suppress
from pathlib import Path

import torch

from swell.wire.whole_files import make_folder


def scratch_room(folder: Path, size: int, dtype: torch.dtype) -> torch.Tensor:
    """Return a flat tensor in a file in `folder`; in memory where the disk has no room for it twice."""
    num_bytes = size * dtype.itemsize
    with suppress(OSError):  # then there is still the memory
        make_folder(folder)
        disk = os.statvfs(folder)
        if 0 < 2 * num_bytes <= disk.f_bavail * disk.f_frsize:
            with tempfile.TemporaryFile(dir=folder) as file:
                os.posix_fallocate(file.fileno(), 0, num_bytes)  # a full disk would kill who writes
                return torch.frombuffer(mmap.mmap(file.fileno(), num_bytes), dtype=dtype, count=size)
    return torch.empty(size, dtype=dtype, device="cpu")

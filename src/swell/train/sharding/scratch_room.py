"""Room for tensors in a file without a name, whose pages the kernel writes out where memory is short.

A whole state that is gathered to be saved may be larger than the memory that a worker may have.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from swell.wire.whole_files import make_folder

#: Tensors begin at multiples of so many bytes.
ALIGNMENT = 64


def scratch_room(folder: Path, sizes: Sequence[int]) -> Callable[[int, torch.dtype], torch.Tensor]:
    """What makes flat tensors of these sizes in bytes, one after the other, in host memory.

    They lie in one file in `folder` as long as there is one of them; in memory of their own where the disk
    has no room for them and what is saved of them.
    """
    begin, num_bytes = 0, sum(map(_aligned, sizes))
    room = _map(folder, num_bytes) if num_bytes else None

    def empty(size: int, dtype: torch.dtype) -> torch.Tensor:
        nonlocal begin
        if room is None or not size:
            return torch.empty(size, dtype=dtype, device="cpu")
        tensor = torch.frombuffer(room, dtype=dtype, count=size, offset=begin)
        begin += _aligned(tensor.nbytes)
        return tensor

    return empty


def _map(folder: Path, num_bytes: int) -> mmap.mmap | None:
    try:
        make_folder(folder)
        disk = os.statvfs(folder)
        if disk.f_bavail * disk.f_frsize < 2 * num_bytes:
            return None
        with tempfile.TemporaryFile(dir=folder) as file:
            os.posix_fallocate(file.fileno(), 0, num_bytes)  # else a full disk would kill who writes there
            return mmap.mmap(file.fileno(), num_bytes)
    except OSError:
        return None


def _aligned(num_bytes: int) -> int:
    return -(-num_bytes // ALIGNMENT) * ALIGNMENT

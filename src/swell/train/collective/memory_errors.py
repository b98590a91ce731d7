"""Which errors say that memory ran out."""

from __future__ import annotations

import errno

import torch

#: What torch and its libraries say of it in errors that are no `OutOfMemoryError`.
SIGNS = (
    "DefaultCPUAllocator: can't allocate memory",
    "CUDA error: out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_ALLOC_FAILED",
)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether this says that an allocation failed: on a device, or in host memory."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    if isinstance(error, OSError):  # of `mmap`
        return error.errno == errno.ENOMEM
    return isinstance(error, RuntimeError) and any(sign in str(error) for sign in SIGNS)

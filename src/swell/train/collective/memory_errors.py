"""When memory runs out: which errors say so, whether smaller passes may help, and what to do elsewhere."""

from __future__ import annotations

import errno

import torch

from swell.train.data.sample_schedule import Share

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


def largest_pass(share: Share) -> int:
    """Samples that go through the model together at most; a borrowed one counts: it needs room too."""
    return max(len(part.indices) for part in share.passes)


def why_hopeless(share: Share) -> str | None:
    """What to do about a step that does not fit, where it cannot be cut smaller; None where it can."""
    num_samples = largest_pass(share)
    if num_samples == 1:
        return (
            "one sample does not fit into the device's memory, with the model and the optimizer's state; "
            "divide the model among devices (--devices-per-worker), make it or the samples smaller, compute "
            "in half precision, or use a larger device"
        )
    if share.num_shards:
        return (
            f"a shard of {num_samples} samples does not fit into the device's memory, and with "
            "deterministic=True a shard is never cut, for that would change the sums; raise elastic()'s "
            f"shards={share.num_shards}, to {2 * share.num_shards} for instance, and submit the job again"
        )
    return None

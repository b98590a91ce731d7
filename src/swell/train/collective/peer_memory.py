"""Copy from the memory of another process of this user on this machine, where the kernel lets one.

A socket costs each byte two copies, and the other side's time; this costs one copy, and the other side does
nothing.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import msgspec
import torch

from swell.train.collective.interfaces import own_address

#: The place of a worker that reads no other's memory.
NOWHERE = ""
_BOOT_ID, _PROCESSES = Path("/proc/sys/kernel/random/boot_id"), "/proc/self/ns/pid"
_SET_PTRACER = 0x59616D61  #: PR_SET_PTRACER of Linux's prctl(2)
#: Threads share the calls: the first use of new memory costs more processor time than the copy.
MAX_CALL_BYTES = 16 * 2**20
MAX_THREADS = 4
_libc = ctypes.CDLL(None, use_errno=True)


def own_place() -> str:
    """Where workers are that can read each other: a kernel, a namespace of process ids, a host's address."""
    try:
        return f"{_BOOT_ID.read_text().strip()} {os.readlink(_PROCESSES)} {own_address()}"
    except OSError:
        return NOWHERE


class PeerMemory(msgspec.Struct, frozen=True):
    """Where tensors of a process lie, for others at its place to read."""

    pid: int
    spans: list[tuple[int, int]]  #: address and bytes of each


def lend(tensors: Iterable[torch.Tensor]) -> PeerMemory:
    """Contiguous tensors on the host, which have to stay as they are until all have read them."""
    return PeerMemory(os.getpid(), [(tensor.data_ptr(), tensor.nbytes) for tensor in tensors])


def allow_siblings() -> None:
    """Let the children of this process's parent read this one, where Yama lets only parents do so."""
    if sys.platform == "linux":
        _libc.prctl(_SET_PTRACER, ctypes.c_ulong(os.getppid()))  # fails where there is no Yama


def read(lent: PeerMemory, targets: Sequence[torch.Tensor]) -> None:
    """Copy what a process lends to contiguous tensors of the same sizes.

    Raises:
        OSError: the kernel does not let us, cannot, the process is gone, or it lends something else. Part may
            have been copied.
    """
    if sys.platform != "linux":
        raise OSError("only Linux has process_vm_readv")
    if [num_bytes for _, num_bytes in lent.spans] != [tensor.nbytes for tensor in targets]:
        raise OSError(f"process {lent.pid} lends tensors of other sizes")
    calls = [
        (address + done, target.data_ptr() + done, min(MAX_CALL_BYTES, num_bytes - done))
        for (address, num_bytes), target in zip(lent.spans, targets, strict=True)
        for done in range(0, num_bytes, MAX_CALL_BYTES)
    ]
    num_threads = max(1, min(len(calls), MAX_THREADS, len(os.sched_getaffinity(0))))
    with ThreadPoolExecutor(num_threads) as pool:
        list(pool.map(partial(_read_once, lent.pid), calls))  # which raises what a call has raised


def has_read(lent: PeerMemory, targets: Sequence[torch.Tensor]) -> bool:
    """Whether `read` did not fail."""
    try:
        read(lent, targets)
    except OSError:
        return False
    return True


class _Part(ctypes.Structure):
    """What process_vm_readv(2) takes."""

    _fields_ = [("address", ctypes.c_void_p), ("num_bytes", ctypes.c_size_t)]


def _read_once(pid: int, call: tuple[int, int, int]) -> None:
    there, here, num_bytes = call
    parts = [ctypes.byref(_Part(address, num_bytes)) for address in (here, there)]
    one = ctypes.c_ulong(1)
    num_read: int = _libc.process_vm_readv(ctypes.c_int(pid), parts[0], one, parts[1], one, ctypes.c_ulong(0))
    if num_read != num_bytes:  # less where a part of it is not to be read
        raise OSError(ctypes.get_errno(), f"the memory of process {pid} cannot be read")

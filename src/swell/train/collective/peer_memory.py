"""Copy from the memory of another process of this user on this machine, where the kernel lets one.

A socket costs each byte two copies, and the other side's time; this costs one copy, and the other side does
nothing.
"""

from __future__ import annotations

import ctypes
import os
import secrets
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import torch

from swell.train.collective.interfaces import own_address

#: The place of a worker that reads no other's memory.
NOWHERE = ""
_BOOT_ID, _PROCESSES = Path("/proc/sys/kernel/random/boot_id"), "/proc/self/ns/pid"
_SET_PTRACER = 0x59616D61  #: PR_SET_PTRACER of Linux's prctl(2)
#: Threads share the calls: the first use of new memory costs more processor time than the copy.
MAX_CALL_BYTES = 16 * 2**20
MAX_THREADS = 4
TOKEN_BYTES = 16
_libc = ctypes.CDLL(None, use_errno=True)


def own_place() -> str:
    """Where workers are that can read each other: a kernel, a namespace of process ids, a host's address."""
    try:
        return f"{_BOOT_ID.read_text().strip()} {os.readlink(_PROCESSES)} {own_address()}"
    except OSError:
        return NOWHERE


class MemorySpan(NamedTuple):
    """A part of a process's memory."""

    address: int
    num_bytes: int


def span_of(tensor: torch.Tensor) -> MemorySpan:
    """The memory of a contiguous tensor on the host."""
    return MemorySpan(tensor.data_ptr(), tensor.nbytes)


class LentMemory(msgspec.Struct, frozen=True):
    """Where a process has something for others to read."""

    pid: int
    token: bytes  #: lies before it: who finds it there reads the right process
    span: MemorySpan  #: of both


class MemoryLoan:
    """Content that others may read, where `lent` says, for as long as this object lives."""

    def __init__(self, content: bytes) -> None:
        token = secrets.token_bytes(TOKEN_BYTES)
        self._content = np.frombuffer(token + content, dtype=np.uint8)
        span = MemorySpan(self._content.ctypes.data, self._content.nbytes)
        self.lent = LentMemory(os.getpid(), token, span)


def read_lent(lent: LentMemory) -> bytes:
    """The content. Raises OSError: it cannot be read, or another process has that number here."""
    content = np.empty(lent.span.num_bytes, dtype=np.uint8)
    read(lent.pid, [lent.span], [MemorySpan(content.ctypes.data, content.nbytes)])
    found = content.tobytes()
    if found[:TOKEN_BYTES] != lent.token:
        raise OSError(f"process {lent.pid} is another one than the one that lends its memory")
    return found[TOKEN_BYTES:]


def allow_siblings() -> None:
    """Let the children of this process's parent read this one, where Yama lets only parents do so."""
    if sys.platform == "linux":
        _libc.prctl(_SET_PTRACER, ctypes.c_ulong(os.getppid()))  # fails where there is no Yama


def read(pid: int, sources: Sequence[MemorySpan], targets: Sequence[MemorySpan]) -> None:
    """Copy spans of another process's memory to spans of the same sizes of one's own.

    Raises:
        OSError: the kernel does not let us, cannot, or the process is gone. Part may have been copied.
    """
    if sys.platform != "linux":
        raise OSError("only Linux has process_vm_readv")
    calls = [
        (source.address + done, target.address + done, min(MAX_CALL_BYTES, source.num_bytes - done))
        for source, target in zip(sources, targets, strict=True)
        for done in range(0, source.num_bytes, MAX_CALL_BYTES)
    ]
    num_threads = max(1, min(len(calls), MAX_THREADS, len(os.sched_getaffinity(0))))
    with ThreadPoolExecutor(num_threads) as pool:
        list(pool.map(partial(_read_once, pid), calls))  # which raises what a call has raised


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

"""Test of a host's devices: what they compute, keep in memory and sum over their links is compared, exactly.

`python -m` with devices, as torch names them, prints a line of JSON for each: fields of a `DeviceTest`. Each
device has a process of its own, as workers have. All end when standard input does.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import timedelta
from functools import partial

import torch
from torch._C._distributed_c10d import TCPStore

from swell.train.collective.process_groups import LOOPBACK, make_group

#: Products and sums are repeated for so long.
REPEATED_S = 1.0
SUM_TIMEOUT = timedelta(seconds=60.0)
#: Bytes that are written and read at a time, and the part of a GPU's free memory that is.
BLOCK_BYTES, MEMORY_SHARE = 2**26, 0.8
SUM_BYTES = 2**24


class WrongResultError(RuntimeError):
    """A device has computed or kept something else than it should."""


def run(devices: Sequence[str]) -> None:
    """Test these devices."""
    store = TCPStore(LOOPBACK, 0, is_master=True, wait_for_workers=False)
    with ProcessPoolExecutor(len(devices), multiprocessing.get_context("fork")) as processes:
        threading.Thread(target=_end_with_parent, daemon=True).start()
        for found in processes.map(partial(_test, store.port, devices), range(len(devices))):
            print(json.dumps(found))


def _end_with_parent() -> None:
    while os.read(sys.stdin.fileno(), 1):
        pass
    os.killpg(0, signal.SIGKILL)


def _test(port: int, devices: Sequence[str], rank: int) -> dict[str, object]:
    torch.set_num_threads(1)
    parts: dict[str, Callable[[torch.device], float]] = {"flops_per_s": _multiply, "memory_per_s": _remember}
    if len(devices) > 1:
        parts["sum_per_s"] = partial(_sum, port, rank, len(devices))
    found: dict[str, object] = {}
    faults: list[str] = []
    for name, part in parts.items():
        try:
            found[name] = part(torch.device(devices[rank]))
        except Exception as error:  # noqa: BLE001 - whatever a faulty device makes torch raise
            faults.append(str(error).partition("\n")[0])
    return {**found, "fault": "; ".join(faults)}


def _multiply(device: torch.device) -> float:
    """Multiply matrices of whole numbers, whose sums are exact in any order; operations a second."""
    size, dtype = (4096, torch.float16) if device.type == "cuda" else (512, torch.float32)
    left, right = (torch.randint(-1, 2, (size, size)).double() for _ in range(2))
    weights = torch.arange(1.0, size + 1.0, dtype=torch.float64)  # any wrong element changes a weighted sum
    one, other = left.to(device, dtype), right.to(device, dtype)
    first = one @ other
    if not torch.equal(first.cpu().double() @ weights, left @ (right @ weights)):
        raise WrongResultError("a product of two matrices was wrong")
    began_s, num = time.perf_counter(), 0
    while time.perf_counter() - began_s < REPEATED_S:
        if not torch.equal(one @ other, first):
            raise WrongResultError("a product of two matrices has changed")
        num += 1
    return 2.0 * size**3 * num / (time.perf_counter() - began_s)


def _remember(device: torch.device) -> float:
    """Write most of the memory and read it, then once more with all bits changed; bytes a second."""
    num_bytes = MEMORY_SHARE * torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else BLOCK_BYTES
    pattern = torch.arange(BLOCK_BYTES // 8, device=device)
    blocks = [torch.empty_like(pattern) for _ in range(max(1, int(num_bytes) // BLOCK_BYTES))]
    began_s = time.perf_counter()
    for bits in (0, -1):
        for place, block in enumerate(blocks):
            torch.bitwise_xor(pattern + place, bits, out=block)
        for place, block in enumerate(blocks):
            if not torch.equal(block, (pattern + place) ^ bits):
                raise WrongResultError("memory has not kept what was written")
    return 4.0 * len(blocks) * BLOCK_BYTES / (time.perf_counter() - began_s)


def _sum(port: int, rank: int, num: int, device: torch.device) -> float:
    """Sum whole numbers of all devices; bytes of each a second. The first one says when it is enough."""
    store = TCPStore(LOOPBACK, port, is_master=False)
    group = make_group(store, rank, num, device, SUM_TIMEOUT)
    numbers = torch.arange(SUM_BYTES // 4, device=device, dtype=torch.float32) % 1000.0
    is_over, count, began_s = torch.zeros(1, device=device), 0, time.perf_counter()
    while not is_over.item():
        summed = numbers * (rank + 1)
        group.allreduce([summed]).wait()
        if not torch.equal(summed, numbers * (num * (num + 1) // 2)):
            raise WrongResultError("a sum over the links was wrong")
        count += 1
        is_over.fill_(rank == 0 and time.perf_counter() - began_s > REPEATED_S)
        group.allreduce([is_over]).wait()
    return SUM_BYTES * count / (time.perf_counter() - began_s)


if __name__ == "__main__":
    run(sys.argv[1:])

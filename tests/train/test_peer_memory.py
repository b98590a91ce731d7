"""What is read from another process's memory is what lies there, or an error."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest

from swell.train.collective import peer_memory
from swell.train.collective.peer_memory import NOWHERE, MemorySpan, own_place, read
from swell.wire import environ

#: Tells where it keeps 100,000 numbers, and lives until its input ends.
HOLDER = """
import sys, numpy
numbers = numpy.arange(100_000, dtype=numpy.int32)
print(numbers.ctypes.data, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder() -> Iterator[tuple[subprocess.Popen[str], int]]:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield process, int(process.stdout.readline())
        process.kill()


def test_reads_spans_in_order(holder: tuple[subprocess.Popen[str], int]) -> None:
    process, address = holder
    target = np.zeros(30, dtype=np.int32)
    here = target.ctypes.data
    sources = [MemorySpan(address + 4 * first, 40) for first in (99_990, 0, 50_000)]
    read(process.pid, sources, [MemorySpan(here + 40 * number, 40) for number in range(3)])
    expected = [*range(99_990, 100_000), *range(10), *range(50_000, 50_010)]
    assert target.tolist() == expected


def test_many_spans_and_long_ones_take_several_calls(
    holder: tuple[subprocess.Popen[str], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer_memory, "MAX_CALL_BYTES", 1001)
    process, address = holder
    target = np.zeros(100_000, dtype=np.int32)
    here = target.ctypes.data
    sizes = [4] * 3000 + [400_000 - 4 * 3000]
    offsets = np.cumsum([0, *sizes[:-1]]).tolist()
    sources, targets = (
        [MemorySpan(base + offset, size) for offset, size in zip(offsets, sizes, strict=True)]
        for base in (address, here)
    )
    read(process.pid, sources, targets)
    assert (target == np.arange(100_000)).all()


def test_what_cannot_be_read_is_an_error(holder: tuple[subprocess.Popen[str], int]) -> None:
    process, address = holder
    target = np.zeros(4, dtype=np.int32)
    here = MemorySpan(target.ctypes.data, 16)
    with pytest.raises(OSError, match=f"process {process.pid}"):
        read(process.pid, [MemorySpan(8, 16)], [here])
    with pytest.raises(OSError, match=f"process {process.pid}"):  # the second half is not there
        read(
            process.pid,
            [MemorySpan(address, 8), MemorySpan(8, 8)],
            [MemorySpan(here.address, 8), MemorySpan(here.address + 8, 8)],
        )
    process.kill()
    process.wait()
    with pytest.raises(OSError, match=f"process {process.pid}"):
        read(process.pid, [MemorySpan(address, 16)], [here])


def test_workers_of_one_machine_are_at_one_place_unless_their_hosts_are_reached_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = own_place()
    assert own_place() == before != NOWHERE
    monkeypatch.setenv(environ.ADDRESS, "127.0.0.2")
    assert own_place() != before

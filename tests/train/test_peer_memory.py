"""What is read from another process's memory is what lies there, or an error."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest
import torch

from swell.train.collective import peer_memory
from swell.train.collective.peer_memory import NOWHERE, LentMemory, own_place, read
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
    targets = [torch.zeros(10, dtype=torch.int32) for _ in range(3)]
    read(LentMemory(process.pid, [(address + 4 * first, 40) for first in (99_990, 0, 50_000)]), targets)
    assert torch.cat(targets).tolist() == [*range(99_990, 100_000), *range(10), *range(50_000, 50_010)]


def test_many_spans_and_long_ones_take_several_calls(
    holder: tuple[subprocess.Popen[str], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer_memory, "MAX_CALL_BYTES", 1001)
    process, address = holder
    target = torch.zeros(100_000, dtype=torch.int32)
    targets = target.split([1] * 3000 + [97_000])
    here = [tensor.data_ptr() - target.data_ptr() for tensor in targets]
    spans = [(address + offset, tensor.nbytes) for offset, tensor in zip(here, targets, strict=True)]
    read(LentMemory(process.pid, spans), targets)
    assert torch.equal(target, torch.arange(100_000, dtype=torch.int32))


def test_what_cannot_be_read_is_an_error(holder: tuple[subprocess.Popen[str], int]) -> None:
    process, address = holder
    target = torch.zeros(4, dtype=torch.int32)
    with pytest.raises(OSError, match=f"process {process.pid}"):
        read(LentMemory(process.pid, [(8, 16)]), [target])
    with pytest.raises(OSError, match=f"process {process.pid}"):  # the second half is not there
        read(LentMemory(process.pid, [(address, 8), (8, 8)]), target.split(2))
    with pytest.raises(OSError, match="other sizes"):
        read(LentMemory(process.pid, [(address, 20)]), [target])
    process.kill()
    process.wait()
    with pytest.raises(OSError, match=f"process {process.pid}"):
        read(LentMemory(process.pid, [(address, 16)]), [target])


def test_workers_of_one_machine_are_at_one_place_unless_their_hosts_are_reached_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = own_place()
    assert own_place() == before != NOWHERE
    monkeypatch.setenv(environ.ADDRESS, "127.0.0.2")
    assert own_place() != before

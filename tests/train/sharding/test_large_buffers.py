"""Buffers for large tensors: none is lent twice, and none is made where one is free."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from swell.train.sharding.large_buffers import LargeBuffers
from swell.train.sharding.shard_group import scratch_room

CPU = torch.device("cpu")
DTYPES = [torch.float32, torch.bfloat16, torch.uint8, torch.float64]


@given(st.lists(st.tuples(st.integers(0, 300), st.sampled_from(DTYPES), st.integers(0, 5)), max_size=40))
def test_no_two_tensors_share_memory_while_a_view_of_one_is_left(
    wishes: list[tuple[int, torch.dtype, int]],
) -> None:
    """A tensor goes out of use as soon as the last view of it is gone."""
    buffers, views = LargeBuffers(), dict[int, tuple[torch.Tensor, int]]()
    for number, (size, dtype, gone) in enumerate(wishes):
        views.pop(gone, None)
        tensor = buffers.empty(size, dtype, CPU)
        assert tensor.numel() == size and tensor.dtype == dtype
        tensor.view(torch.uint8).fill_(number)
        views[number % 6] = tensor.view(torch.uint8)[tensor.nbytes // 2 :], number
        for view, filled in views.values():
            assert bool((view == filled).all())


def test_what_no_tensor_uses_is_used_again() -> None:
    buffers = LargeBuffers()
    first = buffers.empty(1000, torch.float32, CPU)
    address = first.data_ptr()
    assert buffers.empty(1000, torch.float32, CPU).data_ptr() != address
    del first
    assert buffers.empty(900, torch.float32, CPU).data_ptr() == address
    assert buffers.empty(400, torch.float32, CPU).data_ptr() != address, "most of it would be left unused"
    parameter = torch.nn.Parameter(torch.empty(0))
    parameter.data = buffers.empty(1000, torch.float32, CPU).view(10, 100)
    assert buffers.empty(1000, torch.float32, CPU).data_ptr() != parameter.data_ptr()


@given(st.lists(st.tuples(st.integers(0, 200), st.sampled_from(DTYPES)), max_size=20))
def test_scratch_room_is_each_tensors_own(wishes: list[tuple[int, torch.dtype]]) -> None:
    with TemporaryDirectory() as folder:
        tensors = [scratch_room(Path(folder), size, dtype) for size, dtype in wishes]
        assert not os.listdir(folder), "the files have no name"
    for number, tensor in enumerate(tensors):
        tensor.view(torch.uint8).fill_(number)
    for number, (tensor, (size, dtype)) in enumerate(zip(tensors, wishes, strict=True)):
        assert tensor.numel() == size and tensor.dtype == dtype
        assert bool((tensor.view(torch.uint8) == number).all())


def test_a_full_disk_leaves_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", fail)
    tensor = scratch_room(tmp_path / "checkpoints", 100, torch.float32)
    tensor.fill_(1.0)
    assert float(tensor.sum()) == 100.0

"""Buffers for large tensors: none is lent twice, and none is made where one is free."""

from __future__ import annotations

import errno
import os
from pathlib import Path

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


def test_a_full_disk_leaves_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", fail)
    tensor = scratch_room(tmp_path / "checkpoints", 100, torch.float32)
    tensor.fill_(1.0)
    assert float(tensor.sum()) == 100.0

"""Which errors say that memory ran out, and where smaller passes would help."""

from __future__ import annotations

import mmap

import numpy as np
import pytest
import torch

from swell.train.collective.group import Group, is_out_of_memory
from swell.train.data.sample_schedule import SampleSchedule, Share
from swell.train.runtime.runner import largest_pass, why_hopeless

TOO_MUCH = 2**60


def test_what_torch_and_numpy_raise_is_known() -> None:
    with pytest.raises(RuntimeError) as of_torch:
        torch.empty(TOO_MUCH, dtype=torch.uint8)
    with pytest.raises(OSError) as of_mmap:
        mmap.mmap(-1, TOO_MUCH)
    assert is_out_of_memory(of_mmap.value) and not is_out_of_memory(FileNotFoundError(2, "no file"))
    with pytest.raises(MemoryError) as of_numpy:
        np.empty(TOO_MUCH, dtype=np.uint8)
    for error in (of_torch.value, of_numpy.value, torch.OutOfMemoryError("CUDA out of memory. Tried to")):
        assert is_out_of_memory(error)
    assert is_out_of_memory(RuntimeError("CUDA error: out of memory"))
    for other in (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), ValueError("memory")):
        assert not is_out_of_memory(other)


def test_memory_that_runs_out_in_a_sum_is_no_lost_peer() -> None:
    """The next step would meet the same, and the one after."""

    def run_out() -> None:
        raise RuntimeError("CUDA error: out of memory")

    with pytest.raises(RuntimeError, match="out of memory"):
        Group(torch.device("cpu")).run(run_out)


def test_a_step_can_be_cut_unless_it_is_one_sample_or_in_shards() -> None:
    plain = SampleSchedule(64, 16, is_shuffled=False, drops_last=False)
    cut = SampleSchedule(64, 16, is_shuffled=False, drops_last=False, num_shards=4)
    assert largest_pass(plain.share(0, 0, 3, None)) == 5
    assert not told(plain.share(0, 0, 3, None))
    assert largest_pass(cut.share(0, 0, 2)) == 4
    assert "shards=4, to 8" in told(cut.share(0, 0, 2))
    assert "one sample does not fit" in told(plain.share(0, 0, 1, 1))
    assert "one sample does not fit" in told(plain.share(0, 0, 32)), "a borrowed one"


def told(share: Share) -> str:
    return why_hopeless(share) or ""

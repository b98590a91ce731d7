"""A sum tells whether all workers had the same number, whatever the order of adding."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from swell.train.collective.equality import MAX_WORKERS, NUM_WORDS, is_same, to_words

NUMBERS = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-2, 2))


def summed(numbers: list[int], dtype: torch.dtype = torch.float32) -> list[float]:
    """One after the other, rounding after each."""
    total = torch.zeros(NUM_WORDS, dtype=dtype)
    for number in numbers:
        total += to_words(torch.tensor(number)).to(dtype)
    return total.tolist()


@given(st.lists(NUMBERS, min_size=1, max_size=64), st.sampled_from([torch.float32, torch.float64]))
def test_equal_is_told_from_different(numbers: list[int], dtype: torch.dtype) -> None:
    assert is_same(summed(numbers, dtype), len(numbers)) == (len(set(numbers)) == 1)
    assert is_same(summed(numbers[:1] * len(numbers), dtype), len(numbers))


@given(NUMBERS, st.integers(0, 63), st.integers(2, 64), st.data())
def test_one_bit_of_one_worker_is_found(number: int, bit: int, num_workers: int, data: st.DataObject) -> None:
    other = number ^ (1 << bit if bit < 63 else -(1 << 63))
    numbers = [number] * num_workers
    numbers[data.draw(st.integers(0, num_workers - 1))] = other
    assert not is_same(summed(numbers), num_workers)


@given(NUMBERS, st.integers(2, MAX_WORKERS))
def test_sums_are_exact_for_as_many_workers_as_is_said(number: int, num_workers: int) -> None:
    words = to_words(torch.tensor(number)).float()
    assert is_same((words * num_workers).tolist(), num_workers)
    other = to_words(torch.tensor(number ^ 1)).float()
    assert not is_same((words * (num_workers - 1) + other).tolist(), num_workers)
    assert (words * num_workers).max() <= 2**24


def test_no_words_are_no_difference() -> None:
    assert is_same([0.0] * NUM_WORDS, 7)

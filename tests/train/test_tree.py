"""Laws of the one order of summing."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swell.train.collective.sharded import Fold, cover
from swell.train.data.sample_schedule import cut

Term = str  #: who was added to whom, written out: equal terms are equal bits


def reference(low: int, high: int, num_leaves: int) -> Term:
    """The sum of a padded tree's leaves low..high-1, from the definition."""
    if high - low == 1:
        return str(low)
    middle = (low + high) // 2
    if middle >= num_leaves:
        return reference(low, middle, num_leaves)
    return f"({reference(low, middle, num_leaves)}+{reference(middle, high, num_leaves)})"


def whole(num_leaves: int) -> Term:
    return reference(0, 1 << (num_leaves - 1).bit_length(), num_leaves)


def fold(num_leaves: int) -> Fold[Term]:
    return Fold(num_leaves, lambda left, right: f"({left}+{right})")


@given(st.integers(1, 70), st.lists(st.integers(0, 70), max_size=9))
def test_any_parts_of_the_leaves_lead_to_the_same_sum(num_leaves: int, ends: list[int]) -> None:
    marks = sorted({0, num_leaves, *(end for end in ends if end < num_leaves)})
    total = fold(num_leaves)
    for low, high in pairwise(marks):
        part = fold(num_leaves)
        for leaf in range(low, high):
            part.push(range(leaf, leaf + 1), str(leaf))
        assert [node for node, _ in part.held] == cover(range(low, high), num_leaves)
        for node, value in part.held:
            total.push(node, value)
    assert total.total() == whole(num_leaves)


@given(st.integers(1, 70), st.integers(1, 90))
def test_workers_that_share_the_leaves_out_hold_few_nodes(num_leaves: int, num_workers: int) -> None:
    held = [cover(cut(num_leaves, num_workers, rank), num_leaves) for rank in range(num_workers)]
    depth = (num_leaves - 1).bit_length()
    assert max(map(len, held)) <= max(1, 2 * depth)
    if num_leaves % num_workers == 0 and num_workers & (num_workers - 1) == 0:
        ranges = num_leaves // num_workers
        if ranges & (ranges - 1) == 0:
            assert {len(nodes) for nodes in held} == {1}


def test_a_part_is_not_the_sum() -> None:
    part = fold(4)
    part.push(range(1), "0")
    part.push(range(1, 2), "1")
    with pytest.raises(ValueError, match="not the sum of all"):
        part.total()

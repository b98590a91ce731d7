"""Sums that begin within the backward pass: all workers sum the same parts in the same order, once each."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.distributed as dist
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from swell.train.collective.bucketed_sum import BucketedSum
from swell.train.collective.group import Group
from swell.train.collective.packing import FlatBuffer


class Noting(Group):
    """A group that doubles what it sums, as two workers with equal gradients do, and notes where that lay."""

    def __init__(self) -> None:
        self.spans: list[tuple[int, int]] = []

    def begin_sum(self, tensor: torch.Tensor) -> dist.Work:
        self.spans.append((int(tensor.storage_offset()), len(tensor)))
        tensor.mul_(2.0)
        return None  # type: ignore[return-value]

    def run(self, collective: Callable[[], object]) -> None:
        collective()


sizes = st.lists(st.integers(1, 40), min_size=1, max_size=9)


@given(sizes, st.data(), st.sampled_from([1, 64, 200, 10**6]), st.booleans())
def test_buckets_are_summed_once_in_one_order_whatever_comes_first(
    sizes: list[int], data: st.DataObject, bucket_bytes: int, adds: bool
) -> None:
    used = data.draw(st.sets(st.integers(0, len(sizes) - 1)))
    order = data.draw(st.permutations(sorted(used)))
    parameters = [nn.Parameter(torch.ones(size, dtype=torch.float64)) for size in sizes]
    flat = FlatBuffer(
        [parameter.shape for parameter in parameters], len(sizes), torch.float64, torch.device("cpu")
    )
    flat.numbers.fill_(3.0)
    group = Noting()
    summed = BucketedSum(parameters, flat, group, 0.5, adds, bucket_bytes)
    for index in order:  # each has its backward pass, in an order that is drawn
        (parameters[index] * (index + 1.0)).sum().backward()
    summed.end()

    assert (
        sorted(group.spans, reverse=True)[1:] == group.spans[:-1]
    )  # from the last, and the words at the end
    assert sum(length for _, length in group.spans) == flat.numbers.numel()
    for index, part in enumerate(flat.gradients):
        own = 0.5 * (index + 1.0) if index in used else 0.0
        assert torch.equal(part, torch.full_like(part, 2.0 * (own + 3.0 * adds)))

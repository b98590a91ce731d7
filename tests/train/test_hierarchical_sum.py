"""Sums in levels: what a single group of all workers comes to, wherever these are."""

from __future__ import annotations

import random
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from hypothesis import given, settings
from hypothesis import strategies as st
from torch._C._distributed_c10d import HashStore, PrefixStore

from swell.executors.gang.job_context import local_ranks
from swell.train.collective.group import await_all
from swell.train.collective.hierarchical_sum import HierarchicalSum
from swell.train.collective.process_groups import make_group
from swell.wire.messages import Regroup

CPU, WITHIN = torch.device("cpu"), timedelta(seconds=300)


def connect(store: HashStore, hosts: list[str], rank: int) -> HierarchicalSum:
    def make(name: str, own: int, num: int) -> dist.ProcessGroup:
        return make_group(PrefixStore(name, store), own, num, CPU, WITHIN)

    place = local_ranks(hosts)[rank]
    regroup = Regroup(
        generation=1,
        rank=rank,
        num_workers=len(hosts),
        source=None,
        local_rank=place.local_rank,
        local_world_size=place.local_world_size,
        group_rank=place.group_rank,
        num_hosts=len({*hosts}),
    )
    return HierarchicalSum(regroup, make)


def numbers(rank: int, size: int) -> torch.Tensor:
    """Whole ones, which have one sum in any order."""
    return torch.arange(size, dtype=torch.float64) * (rank + 1) + rank


@settings(max_examples=8)
@given(
    st.lists(st.sampled_from(["a", "b", "c"]), min_size=2, max_size=6),
    st.lists(st.integers(1, 5000), min_size=1, max_size=12),
    st.integers(0, 2**32),
)
def test_all_workers_have_each_sum(hosts: list[str], sizes: list[int], seed: int) -> None:
    store = HashStore()

    def work(rank: int) -> list[torch.Tensor]:
        sums, pauses = connect(store, hosts, rank), random.Random(seed + rank)
        tensors = [numbers(rank, size) for size in sizes]
        half = len(sizes) // 2
        for part in (tensors[:half], tensors[half:]):  # as a step's, and the next one's
            works = []
            for tensor in part:
                works.append(sums.begin(tensor))
                time.sleep(pauses.choice((0.0, 0.0, 0.002)))  # workers come to a sum at different moments
            await_all(works)
        return tensors

    with ThreadPoolExecutor(len(hosts)) as workers:
        found = list(workers.map(work, range(len(hosts))))
    for index, size in enumerate(sizes):
        total = torch.stack([numbers(rank, size) for rank in range(len(hosts))]).sum(0)
        assert all(torch.equal(each[index], total) for each in found)


def test_a_worker_that_is_gone_fails_the_sum_of_its_host() -> None:
    store, hosts = HashStore(), ["a", "a", "b", "b"]
    with ThreadPoolExecutor(len(hosts)) as workers:
        sums = list(workers.map(lambda rank: connect(store, hosts, rank), range(len(hosts))))
    gone = sums.pop()
    gone.groups.clear()
    del gone
    with pytest.raises(RuntimeError):
        sums[2].begin(torch.ones(4)).wait()

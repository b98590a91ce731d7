"""One of several workers that sum numbers along trees, and compare with the tree of a single process.

Arguments: a file for the group to meet at, rank, number of workers.
"""

import sys
from datetime import timedelta

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import FileStore

from swell.train.collective.group import Group
from swell.train.collective.sharded import Fold, sum_nodes
from swell.train.data.sample_schedule import cut

path, rank, num_workers = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])


def fold(numbers: torch.Tensor, leaves: range) -> Fold[torch.Tensor]:
    held = Fold[torch.Tensor](len(numbers), torch.add)
    for leaf in leaves:
        held.push(range(leaf, leaf + 1), numbers[leaf])
    return held


store = FileStore(path, num_workers)
dist.init_process_group("gloo", store=store, rank=rank, world_size=num_workers, timeout=timedelta(seconds=30))
group = Group(torch.device("cpu"))
group.rank, group.num_workers = rank, num_workers
for num_leaves in (*range(1, 12), 16, 31):
    for size in (1, 2, 5, 1000):
        generator = torch.Generator().manual_seed(1000 * num_leaves + size)
        numbers = torch.randn(num_leaves, size, generator=generator)
        expected = fold(numbers, range(num_leaves)).total().clone()
        own = [value for _, value in fold(numbers, cut(num_leaves, num_workers, rank)).held]
        total = own[0] if own and size % 2 else torch.full((size,), torch.nan)
        sum_nodes(group, num_leaves, own, total)
        assert torch.equal(total, expected), (num_leaves, size, total, expected)
group.close()
print("all sums are equal")

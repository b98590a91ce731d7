"""A rank of a gloo group sums a number with its peers; see `forked.py`."""

from __future__ import annotations

import torch
import torch.distributed as dist


def total(line: object, rank: int, num_ranks: int, store: str) -> float:
    """`store`: ADDRESS:PORT."""
    dist.init_process_group("gloo", init_method=f"tcp://{store}", rank=rank, world_size=num_ranks)
    number = torch.tensor([float(rank) + 1])
    dist.all_reduce(number)
    dist.destroy_process_group()
    return number.item()

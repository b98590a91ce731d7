"""A rank of a gloo group sums a number with its peers: `reduces.py RANK NUM_RANKS ADDRESS:PORT`."""

from __future__ import annotations

import sys

import torch
import torch.distributed as dist


def main() -> None:
    rank, num_ranks, store = sys.argv[1:]
    dist.init_process_group("gloo", init_method=f"tcp://{store}", rank=int(rank), world_size=int(num_ranks))
    number = torch.tensor([float(rank) + 1])
    dist.all_reduce(number)
    print(number.item())
    dist.destroy_process_group()


if not dist.is_available() or not dist.is_gloo_available():
    sys.exit("this torch has no gloo")
if __name__ == "__main__":
    main()

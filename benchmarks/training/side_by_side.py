"""A training script that trains two equal models in turn, a block of steps each, and notes the time of each.

One is trained by `swell.train`, the other as PyTorch's users do, with DistributedDataParallel (or
`fully_shard`, for `adam-fsdp`) and a DistributedSampler, in the same processes and the same group. Whatever
else the machine does meets both.

`side_by_side.py --size 25M --optimizer adam --blocks 20 --steps 10 --out FILE`
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, Subset

from benchmarks.training.problem import OPTIMIZERS, SIZES, make_problem, mesh_of
from benchmarks.training.train import GLOBAL_BATCH
from swell import train


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", choices=SIZES, required=True)
    parser.add_argument("--optimizer", choices=OPTIMIZERS, required=True)
    parser.add_argument("--blocks", type=int, required=True, help="of each of the two")
    parser.add_argument("--steps", type=int, required=True, help="in a block")
    parser.add_argument("--out", type=Path, required=True)
    return parser.parse_args()


def elastic_blocks(options: argparse.Namespace) -> Iterator[None]:
    """A block is an epoch: no other optimizer may step amid the batches of one."""
    model, optimizer, data = make_problem(options.size, options.optimizer)
    loss_of = nn.CrossEntropyLoss()
    samples = Subset(data, range(options.steps * GLOBAL_BATCH))
    loader = DataLoader(samples, batch_size=GLOBAL_BATCH, shuffle=True)
    run = train.elastic(model, optimizer, loader, epochs=10**6, mesh=mesh_of(model))
    for _ in run.epochs():
        for x, y in run.batches():
            optimizer.zero_grad()
            loss = loss_of(model(x), y)
            run.backward(loss)
            run.step()
        yield


def plain_blocks(options: argparse.Namespace) -> Iterator[None]:
    """Once the process group is there."""
    model, optimizer, data = make_problem(options.size, options.optimizer)
    loss_of = nn.CrossEntropyLoss()
    parallel = DistributedDataParallel(model) if mesh_of(model) is None else model
    samples = Subset(data, range(options.steps * GLOBAL_BATCH))
    sampler: DistributedSampler[tuple[torch.Tensor, ...]] = DistributedSampler(samples)
    loader = DataLoader(samples, batch_size=GLOBAL_BATCH // dist.get_world_size(), sampler=sampler)
    for epoch in itertools.count():
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            loss = loss_of(parallel(x), y)
            loss.backward()
            optimizer.step()
        yield


def time_block(blocks: Iterator[None]) -> float:
    """Seconds until all workers have done a block, from when all are there."""
    dist.barrier()
    begun_s = time.monotonic()
    next(blocks)
    dist.barrier()
    return time.monotonic() - begun_s


def main() -> None:
    options = parse()
    elastic = elastic_blocks(options)
    next(elastic)
    plain = plain_blocks(options)
    turns: dict[str, Callable[[], float]] = {
        "swell": lambda: time_block(elastic),
        "ddp": lambda: time_block(plain),
    }
    blocks_s: dict[str, list[float]] = {name: [] for name in turns}
    for number in range(options.blocks + 1):
        for name in sorted(turns, reverse=bool(number % 2)):  # neither is always the first
            blocks_s[name].append(turns[name]())
    if dist.get_rank() == 0:
        counted = {name: found[1:] for name, found in blocks_s.items()}  # not those that warmed it up
        draft = options.out.with_suffix(".draft")
        draft.write_text(json.dumps(counted))
        draft.rename(options.out)


if __name__ == "__main__":
    main()

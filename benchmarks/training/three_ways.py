"""A training script that trains one model in three ways in turn, a block of steps each, and times each block.

Gradients in one piece after the backward pass, in buckets during it, and as DistributedDataParallel sums
them, in the same processes and the same group.

`three_ways.py --size 25M --optimizer sgd --blocks 4 --steps 3 --out FILE`
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import torch.distributed as dist

from benchmarks.training.side_by_side import elastic_blocks, parse, plain_blocks, time_block
from swell.train.collective.early import NUM_WATCHED
from swell.train.runtime.run import started

#: Sums begin early only after one step and those that are watched; a buffer is new in each of them.
NUM_WARM_UPS = NUM_WATCHED + 2


def block_of_gang(elastic: Iterator[None], num_hosts: int, num_steps: int) -> float:
    """As if its workers were on so many hosts."""
    members = started[-1]._host.members
    if members.num_hosts != num_hosts:
        members.num_hosts = num_hosts  # type: ignore[misc]
        for _ in range(-(-NUM_WARM_UPS // num_steps)):
            next(elastic)
    return time_block(elastic)


def main() -> None:
    options = parse()
    elastic = elastic_blocks(options)
    next(elastic)
    plain = plain_blocks(options)
    turns: dict[str, Callable[[], float]] = {
        "one piece": lambda: block_of_gang(elastic, 1, options.steps),
        "overlapped": lambda: block_of_gang(elastic, 2, options.steps),
        "ddp": lambda: time_block(plain),
    }
    time_block(plain)
    blocks_s: dict[str, list[float]] = {name: [] for name in turns}
    for number in range(options.blocks):
        for name in sorted(turns, reverse=bool(number % 2)):  # none is always the first
            blocks_s[name].append(turns[name]())
    if dist.get_rank() == 0:
        options.out.write_text(json.dumps(blocks_s))


if __name__ == "__main__":
    main()

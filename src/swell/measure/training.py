"""The training of a self-test, in double precision: by Swell as the script of a job, and by plain PyTorch.

As a script it trains until it is ended; the argument `divided` divides the model by FSDP2 among the processes
of a worker. `python -m swell.measure.training PARENT plain CHECKPOINT...` and `... PARENT ddp RANK SIZE PORT`
are what it is compared with, and print JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from itertools import islice, pairwise
from pathlib import Path
from statistics import median
from typing import NoReturn

import torch
from torch import Tensor, distributed, nn
from torch.distributed import TCPStore  # type: ignore[attr-defined]
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

from swell import train
from swell.executors.local.processes.parent_death import die_with_parent
from swell.train.collective.process_groups import LOOPBACK
from swell.wire.checkpoint_files import steps_in

#: Gradients of 25 MB, the middle one of `LINK_MB`.
WIDTH, NUM_LAYERS, NUM_CLASSES = 512, 12, 10
GLOBAL_BATCH, NUM_SAMPLES = 32, 2048
ENDLESS = 10**6
#: Steps of DDP: those that are left out at first, and those that are timed.
NUM_WARM_UPS, NUM_STEPS = 5, 30
LINK_MB, NUM_SUMS = (1, 25, 100), 5
#: A process of DDP that waits longer for another one fails.
WITHIN = timedelta(seconds=60)


class Problem:
    """A classifier and its samples, the same in each process that makes them."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        torch.set_default_dtype(torch.float64)  # rounding is told from a wrong result
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        layers = [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(NUM_LAYERS)]
        self.model = nn.Sequential(*layers, nn.Linear(WIDTH, NUM_CLASSES)).to(self.device)
        data = TensorDataset(torch.randn(NUM_SAMPLES, WIDTH), torch.randint(NUM_CLASSES, (NUM_SAMPLES,)))
        self.loader = DataLoader(data, batch_size=GLOBAL_BATCH)


def optimizer_of(model: nn.Module) -> torch.optim.Optimizer:
    """The optimizer of both sides."""
    return torch.optim.Adam(model.parameters(), lr=1e-4)


def elastic(divided: bool) -> None:
    """Train by Swell until the job is ended."""
    mesh = None
    problem = Problem()
    if divided:
        if problem.device.type == "cuda":
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        size = int(os.environ["WORLD_SIZE"])
        mesh = init_device_mesh(problem.device.type, (size,), mesh_dim_names=("fsdp",))
        for layer in problem.model:
            fully_shard(layer, mesh=mesh)
        fully_shard(problem.model, mesh=mesh)
    optimizer = optimizer_of(problem.model)
    run = train.elastic(problem.model, optimizer, problem.loader, epochs=ENDLESS, mesh=mesh)
    for _ in run.epochs():
        for x, y in run.batches():
            optimizer.zero_grad()
            run.backward(nn.functional.cross_entropy(problem.model(x), y))
            run.step()


def plain_steps(problem: Problem, model: nn.Module, rank: int = 0, size: int = 1) -> Iterator[float]:
    """Train by PyTorch alone on one of `size` parts of each batch; gives the times at which steps end."""
    optimizer = optimizer_of(model)
    while True:
        for x, y in problem.loader:
            inputs, classes = (part[rank::size].to(problem.device) for part in (x, y))
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs), classes).backward()
            optimizer.step()
            if problem.device.type == "cuda":
                torch.cuda.synchronize()
            yield time.perf_counter()


def step_s(ends_s: Sequence[float]) -> float:
    """The median time between two ends of steps."""
    return median(end_s - begin_s for begin_s, end_s in pairwise(ends_s))


def plain(paths: Sequence[Path]) -> None:
    """Train as far as each checkpoint, in their order, and compare."""
    problem = Problem()
    steps, ends_s, apart = plain_steps(problem, problem.model), list[float](), list[float]()
    for path in paths:
        ends_s += islice(steps, steps_in(path) - len(ends_s))
        apart.append(distance(train.load_checkpoint(path)["model"], problem.model.state_dict()))
    print(json.dumps({"step_s": step_s(ends_s), "apart": apart}))


def distance(found: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> float:
    """The largest difference of two weights of a tensor, relative to its largest weight."""
    return max(
        float((found[name].cpu() - tensor.cpu()).abs().max() / tensor.abs().max().cpu())
        for name, tensor in wanted.items()
    )


def ddp(rank: int, size: int, port: int) -> NoReturn:
    """Train by DistributedDataParallel, and sum tensors of some sizes. `port`: of the store of the group."""
    problem = Problem()
    backend = "nccl" if problem.device.type == "cuda" else "gloo"
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # the machine's own name may lead elsewhere
    store = TCPStore(LOOPBACK, port)
    distributed.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=WITHIN)
    steps = plain_steps(problem, DistributedDataParallel(problem.model), rank, size)
    ends_s = list(islice(steps, NUM_WARM_UPS + NUM_STEPS))[NUM_WARM_UPS:]
    links = {str(mb): sum_s(torch.ones(mb * 125_000, device=problem.device)) for mb in LINK_MB}
    print(json.dumps({"step_s": step_s(ends_s), "sums_s": links}), flush=True)
    store.set(f"end {rank}", "")
    store.wait([f"end {other}" for other in range(size)])
    os._exit(0)  # gloo may hang where it is taken down, and drop what was sent


def sum_s(tensor: Tensor) -> float:
    """The median time of an all-reduce; the first one, which connects, is left out."""
    ends_s = []
    for _ in range(NUM_SUMS + 2):
        distributed.all_reduce(tensor)
        if tensor.is_cuda:
            torch.cuda.synchronize()
        ends_s.append(time.perf_counter())
    return step_s(ends_s[1:])


def main() -> None:
    """Train as the arguments say."""
    if sys.argv[1:] in ([], ["divided"]):
        elastic(sys.argv[1:] == ["divided"])
        return
    parent, way, *rest = sys.argv[1:]
    die_with_parent(int(parent))
    torch.set_num_threads(1)  # as a worker has
    if way == "ddp":
        ddp(*map(int, rest))
    plain(sorted(map(Path, rest), key=steps_in))


if __name__ == "__main__":
    main()

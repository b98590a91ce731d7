"""The training script of both sides: elastic under Swell, else with checkpoints and DistributedDataParallel.

`train.py --size 25M --optimizer adam --folder FOLDER --checkpoint FILE`. It trains until it is ended.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

from benchmarks.training.problem import NUM_PROCESSES, OPTIMIZERS, SIZES, make_problem, mesh_of
from benchmarks.training.steplog import StepLog
from swell import train
from swell.wire import environ

GLOBAL_BATCH = 32
ENDLESS = 10**6
#: Both sides save as often: early, then now and then.
FIRST_CHECKPOINT_S = 5.0
CHECKPOINT_INTERVAL_S = 30.0
CLOCKS = {"monotonic": time.monotonic, "calendar": time.time}


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", choices=SIZES, required=True)
    parser.add_argument("--optimizer", choices=OPTIMIZERS, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--clock", choices=CLOCKS, default="monotonic", help="of the step log")
    return parser.parse_args()


def train_elastic(options: argparse.Namespace, log: StepLog) -> None:
    model, optimizer, data = make_problem(options.size, options.optimizer)
    loss_of = nn.CrossEntropyLoss()
    loader = DataLoader(data, batch_size=GLOBAL_BATCH, shuffle=True)
    run = train.elastic(model, optimizer, loader, epochs=ENDLESS, mesh=mesh_of(model))
    num = NUM_PROCESSES.get(options.optimizer, 1)
    position = dist.get_rank() if num > 1 else 0
    for _ in run.epochs():
        for x, y in run.batches():
            optimizer.zero_grad()
            loss = loss_of(model(x), y)
            run.backward(loss)
            run.step()
            if run.has_stepped:  # else it comes again
                log.note(run.steps, run.num_workers * num, run.rank * num + position)


def train_plainly(options: argparse.Namespace, log: StepLog) -> None:
    """As torchrun's documentation tells: load the newest checkpoint at the start, save now and then."""
    dist.init_process_group("gloo")
    rank, num_workers = dist.get_rank(), dist.get_world_size()
    model, optimizer, data = make_problem(options.size, options.optimizer)
    loss_of = nn.CrossEntropyLoss()
    steps, epoch = load(options.checkpoint, model, optimizer)
    # Where machines share no folder some have no checkpoint; the model is handed out in any case.
    place = torch.tensor([steps, epoch])
    dist.all_reduce(place, dist.ReduceOp.MAX)
    steps, epoch = place.tolist()
    parallel = DistributedDataParallel(model)
    sampler: DistributedSampler[tuple[torch.Tensor, ...]] = DistributedSampler(data)
    loader = DataLoader(data, batch_size=max(1, GLOBAL_BATCH // num_workers), sampler=sampler)
    due_s = time.monotonic() + FIRST_CHECKPOINT_S
    while True:
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            loss = loss_of(parallel(x), y)
            loss.backward()
            optimizer.step()
            steps += 1
            log.note(steps, num_workers, rank)
            if rank == 0 and time.monotonic() >= due_s:
                save(options.checkpoint, model, optimizer, steps, epoch)
                due_s = time.monotonic() + CHECKPOINT_INTERVAL_S
        epoch += 1


def load(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> tuple[int, int]:
    if not path.exists():
        return 0, 0
    saved = torch.load(path, weights_only=True, mmap=True)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    return saved["steps"], saved["epoch"]


def save(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, steps: int, epoch: int) -> None:
    draft = path.with_suffix(".draft")
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "steps": steps, "epoch": epoch}
    torch.save(state, draft)
    os.replace(draft, path)


def main() -> None:
    options = parse()
    log = StepLog(options.folder, CLOCKS[options.clock])
    (train_elastic if environ.AGENT in os.environ else train_plainly)(options, log)


if __name__ == "__main__":
    main()

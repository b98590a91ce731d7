"""What comparing the replicas of two workers costs: `python -m benchmarks.training.drift`.

Each row is one run under torchrun on one machine. `all` is the median of what a worker computes to compare
all of its tensors; `a step` is its mean over steps, with the hyperparameters.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise

from torch.nn import functional
from torch.utils.data import DataLoader

from benchmarks.training.problem import OPTIMIZERS, SIZES, make_problem
from swell import train
from swell.train.state.drift import Replica
from swell.train.state.train_state import TrainState

GLOBAL_BATCH = 64
NUM_STEPS = {"1M": 200, "25M": 20}


def train_one(size: str, kind: str) -> None:
    """One worker; the leader prints a row."""
    model, optimizer, data = make_problem(size, kind)
    run = train.elastic(model, optimizer, DataLoader(data, GLOBAL_BATCH), steps=NUM_STEPS[size])
    ended_s = []
    for _ in run.epochs():
        for x, y in run.batches():
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x), y)
            run.backward(loss)
            run.step()
            ended_s.append(time.perf_counter())
    if run.is_leader:
        step_s = statistics.median(end - begin for begin, end in pairwise(ended_s))
        print(_row(size, kind, step_s, Replica(TrainState(model, optimizer, None, {}))), flush=True)


def _row(size: str, kind: str, step_s: float, replica: Replica) -> str:
    all_s = _median_s(replica.checksum, 5)
    settings_s = _median_s(replica.hyperparameter_checksum, 100)
    mean_s = settings_s + all_s / replica.interval
    return (
        f"{size:<4}  {kind:<9}  {1e3 * step_s:5.1f} ms  {1e3 * all_s:5.1f} ms  "
        f"{1e3 * mean_s:6.3f} ms  {mean_s / step_s:5.2%}"
    )


def _median_s(do: Callable[[], object], num_times: int) -> float:
    lasted_s = []
    for _ in range(num_times):
        begun_s = time.perf_counter()
        do()
        lasted_s.append(time.perf_counter() - begun_s)
    return statistics.median(lasted_s)


def main() -> None:
    print("size  optimizer      step       all     a step  share", flush=True)
    launch = "-m torch.distributed.run --standalone --nproc-per-node 2 -m benchmarks.training.drift"
    for size in SIZES:
        for kind in OPTIMIZERS:
            subprocess.run(
                [sys.executable, *launch.split(), size, kind], check=True, stderr=subprocess.DEVNULL
            )


if __name__ == "__main__":
    train_one(*sys.argv[1:]) if sys.argv[1:] else main()

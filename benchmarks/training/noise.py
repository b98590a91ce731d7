"""What measuring the noise of gradients costs: `python -m benchmarks.training.noise`.

Each row is one run under torchrun on one machine. Blocks of steps with and without measuring take turns in
the same processes. `more` is the median over pairs of neighbouring blocks of the CPU time of all workers,
with half of the width of the middle half of them. `measured` is the CPU time of the calls that measure over
that of all steps.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch.nn import functional
from torch.utils.data import DataLoader

from benchmarks.training.problem import OPTIMIZERS, SIZES, USUAL, make_problem
from swell import train
from swell.train.collective.gradients import Gradients
from swell.train.collective.packing import Packing
from swell.train.runtime.host import Torchrun
from swell.train.scaling import NOISE_INTERVAL
from swell.train.state.gradient_noise import GradientNoise

GLOBAL_BATCH = 64
#: Blocks of `NOISE_INTERVAL` steps, of each of the two kinds.
NUM_BLOCKS = {"1M": 40, "25M": 6}


class Stopwatch:
    """CPU time of this process in some calls, all of its threads."""

    def __init__(self) -> None:
        self.total_s = 0.0

    def timed(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any) -> Any:
            begun_s = time.process_time()
            try:
                return call(*arguments)
            finally:
                self.total_s += time.process_time() - begun_s

        return run


def train_steps(size: str, kind: str) -> Iterator[train.Run]:
    model, optimizer, data = make_problem(size, kind)
    run = train.elastic(model, optimizer, DataLoader(data, GLOBAL_BATCH), epochs=10**6)
    for _ in run.epochs():
        for x, y in run.batches():
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x), y)
            loss.backward()
            run.step(loss)
            yield run


def switch(run: train.Run, noise: GradientNoise | None) -> None:
    """Measure from the next step on, or do not."""
    run._task.state.noise = noise
    gradients = run._task.gradients
    assert isinstance(gradients, Gradients)  # noqa: S101 - not deterministic
    gradients._packing._parts_interval = NOISE_INTERVAL if noise is not None else 0


def measure(size: str, kind: str, num_blocks: int) -> None:
    """One worker of several; the leader prints a row."""
    Torchrun.measures_noise = True
    watch = Stopwatch()
    GradientNoise.observe = watch.timed(GradientNoise.observe)  # type: ignore[method-assign]
    Packing._norm = watch.timed(Packing._norm)  # type: ignore[method-assign]
    steps = train_steps(size, kind)
    run = next(steps)
    noise = run._task.state.noise
    for _ in range(2 * NOISE_INTERVAL - 1):  # the first ones are all measured
        next(steps)
    blocks_s: dict[bool, list[float]] = {True: [], False: []}
    for is_measured in itertools.islice(itertools.cycle((True, False, False, True)), 2 * num_blocks):
        switch(run, noise if is_measured else None)
        if blocks_s[True] == blocks_s[False] == []:
            watch.total_s = 0.0
        blocks_s[is_measured].append(_cpu_s(lambda: [next(steps) for _ in range(NOISE_INTERVAL)]))
    share = _sum_over_workers(watch.total_s) / sum(blocks_s[True])
    ratios = [one / other for one, other in zip(blocks_s[True], blocks_s[False], strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4)
    if run.is_leader:
        step_s = statistics.median(blocks_s[False]) / NOISE_INTERVAL
        print(
            f"{size:<4}  {kind:<9}  {run.num_workers:7}  {1e3 * step_s:7.1f} ms  {middle - 1:+6.2%} "
            f"+- {(high - low) / 2:.2%}  {share:8.3%}",
            flush=True,
        )


def _cpu_s(do: Callable[[], object]) -> float:
    """CPU seconds of all workers."""
    begun_s = time.process_time()
    do()
    return _sum_over_workers(time.process_time() - begun_s)


def _sum_over_workers(number: float) -> float:
    if not dist.is_initialized():
        return number
    total = torch.tensor(number, dtype=torch.float64)
    dist.all_reduce(total)
    return float(total)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.training.noise", description=__doc__)
    parser.add_argument("--sizes", nargs="+", choices=list(SIZES), default=USUAL)
    parser.add_argument("--optimizers", nargs="+", choices=list(OPTIMIZERS), default=list(OPTIMIZERS))
    parser.add_argument("--workers", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--blocks", type=int, help="of each of the two kinds; 40 of 1M and 6 of 25M")
    options = parser.parse_args()
    print("size  optimizer  workers  CPU of a step  more           measured", flush=True)
    for size, kind, workers in itertools.product(options.sizes, options.optimizers, options.workers):
        launch = f"-m torch.distributed.run --standalone --nproc-per-node {workers} -m {__spec__.name}"
        blocks = options.blocks or NUM_BLOCKS[size]
        command = [sys.executable, *launch.split(), "worker", size, kind, str(blocks)]
        subprocess.run(command, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})


if __name__ == "__main__":
    if sys.argv[1:2] == ["worker"]:
        measure(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    else:
        main()

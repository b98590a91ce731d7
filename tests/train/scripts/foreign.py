"""Knows nothing of Swell: sums a number over its group each step, and counts its steps.

Arguments: `adam` or `sgd`; steps that were made before; how many to make at most; further words `handle`
(save when SIGTERM comes, and leave with 0) or `load` (in two processes).
"""

import signal
import sys

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset

kind, earlier, most, *words = sys.argv[1:]
weight = torch.nn.Parameter(torch.ones(3))
optimizer = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}[kind]([weight], lr=0.1)
if kind == "adam" and int(earlier):
    zeros, count = torch.zeros(3), torch.tensor(float(earlier))
    optimizer.state[weight] = {"step": count, "exp_avg": zeros, "exp_avg_sq": zeros.clone()}
dist.init_process_group("gloo")
step = 0


def save(number: int, frame: object) -> None:
    dist.barrier()  # as a library does that saves with all its workers
    print("saved after", step, flush=True)
    sys.exit(0)


if "handle" in words:
    signal.signal(signal.SIGTERM, save)
loader = DataLoader(TensorDataset(torch.arange(int(most))), num_workers=2 * ("load" in words))
for (number,) in loader:
    step += 1
    weight.grad = number * torch.ones(3)
    dist.all_reduce(weight.grad)
    try:
        optimizer.step()
    finally:
        if step == 1 or "load" not in words:
            print(step, flush=True)

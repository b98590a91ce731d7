"""The training script of the guard: steps that cost little but what Swell does for them."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import torch

from benchmarks.training.steplog import StepLog
from swell import train

#: Of each step, in which the processor is free: what a resize costs is not lost beside it.
REST_S = 0.005


def main() -> None:
    log = StepLog(Path(*sys.argv[1:2]))
    torch.manual_seed(0)
    model = torch.nn.Linear(16, 1)
    data = torch.utils.data.TensorDataset(torch.randn(4096, 16), torch.randn(4096, 1))
    optimizer = torch.optim.Adam(model.parameters())
    run = train.elastic(model, optimizer, torch.utils.data.DataLoader(data, batch_size=32), epochs=10**6)
    for _ in run.epochs():
        for x, y in run.batches():
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(x), y)
            loss.backward()
            run.step(loss)
            log.note(run.steps, run.num_workers, run.rank)
            time.sleep(REST_S)


if __name__ == "__main__":
    main()

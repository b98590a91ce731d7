"""Counts how often each sample was seen, in the parameters themselves, exactly and with any batch.

A step takes a worker as long with one sample as with 32, and beyond that longer and longer, as one whose
cache is too small: so the best batch is 32 for each worker. Keeps a diary in the current folder, a line a
step: steps, pid of the leader, workers, batch.
"""

import json
import os
import time
from pathlib import Path

import torch
from torch.utils.data import DataLoader, TensorDataset

from swell import train

NUM_SAMPLES = 1000
CACHED = 32
STEP_S = 0.05  #: of a step, with as few samples as may be
SLOW_S = 0.004  #: for each sample that is too many


class Visits(torch.optim.SGD):
    """A parameter is the number of steps in which it had a gradient."""

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter += (parameter.grad != 0).to(parameter.dtype)


torch.set_default_dtype(torch.float64)
seen = torch.nn.Embedding(NUM_SAMPLES, 1)
torch.nn.init.zeros_(seen.weight)
loader = DataLoader(TensorDataset(torch.arange(NUM_SAMPLES)), batch_size=64, shuffle=True)
run = train.elastic(seen, Visits(seen.parameters(), lr=1.0), loader, epochs=1)
with open("diary", "a") as diary:
    for _ in run.epochs():
        for (index,) in run.batches():
            seen.weight.grad = None
            loss = (seen(index) * 3.0).mean()
            loss.backward()
            time.sleep(STEP_S + SLOW_S * max(0, len(index) - CACHED))
            before = run.steps
            run.step(loss)
            if run.is_leader and run.steps > before:
                diary.write(f"{run.steps} {os.getpid()} {run.num_workers} {run.global_batch}\n")
                diary.flush()
if run.is_leader:
    visits = seen.weight.detach()
    found = {"least": float(visits.min()), "most": float(visits.max())}
    Path("visits.json").write_text(json.dumps(found))

"""Learns a line, and counts how often each sample was seen: in parameters, exactly and with any batch.

A step takes a worker as long with one sample as with 32, and beyond that longer and longer, as one whose
cache is too small: so the best batch is 32 for each worker. Keeps a diary in the current folder, a line a
step: steps, pid of the leader, workers, batch, epoch. Ends before the epoch that a file `before` names.
"""

import json
import os
import time
from pathlib import Path

import torch
from torch.utils.data import DataLoader, TensorDataset

from swell import train

NUM_SAMPLES, NUM_FEATURES = 1000, 8
OWN_BATCH = 32
CACHED = 32
STEP_S = 0.05  #: of a step, with as few samples as may be
SLOW_S = 0.004  #: for each sample that is too many
RATE = 0.002
#: Of the term that counts, whose gradients of no two samples have anything in common: beside it those of the
#: line hardly matter, so the noise scale of all is far above every batch.
NOISE = 1000.0


class CountingSgd(torch.optim.SGD):
    """Plain SGD; a parameter that counts is the number of steps in which it had a gradient."""

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for parameter in group["params"]:
                counts = (parameter.grad != 0).to(parameter.dtype)
                parameter += counts if group.get("is_count") else -group["lr"] * parameter.grad


torch.set_default_dtype(torch.float64)
torch.manual_seed(0)
x = torch.randn(NUM_SAMPLES, NUM_FEATURES) * torch.logspace(0, -1, NUM_FEATURES)
y = x.sum(1, keepdim=True) + 0.1 * torch.randn(NUM_SAMPLES, 1)
seen, line = torch.nn.Embedding(NUM_SAMPLES, 1), torch.nn.Linear(NUM_FEATURES, 1)
model = torch.nn.ModuleDict({"seen": seen, "line": line})
for parameter in model.parameters():
    torch.nn.init.zeros_(parameter)
groups = [{"params": list(part.parameters()), "is_count": part is seen} for part in (seen, line)]
optimizer = CountingSgd(groups, lr=RATE)
loader = DataLoader(TensorDataset(torch.arange(NUM_SAMPLES)), batch_size=OWN_BATCH, shuffle=True)
run = train.elastic(model, optimizer, loader, epochs=1, rate_rule="square_root")
with open("diary", "a") as diary:
    for epoch in run.epochs():
        if Path("before").exists() and epoch >= int(Path("before").read_text()):
            break
        for (index,) in run.batches():
            optimizer.zero_grad()
            loss = NOISE * seen(index).mean() + torch.nn.functional.mse_loss(line(x[index]), y[index])
            run.backward(loss)
            time.sleep(STEP_S + SLOW_S * max(0, len(index) - CACHED))
            before = run.steps
            run.step()
            if run.is_leader and run.steps > before:
                diary.write(f"{run.steps} {os.getpid()} {run.num_workers} {run.global_batch} {epoch}\n")
                diary.flush()
if run.is_leader:
    visits = seen.weight.detach()
    final = torch.nn.functional.mse_loss(line(x), y).item()
    found = {"least": float(visits.min()), "most": float(visits.max()), "loss": final}
    Path("visits.json").write_text(json.dumps(found))

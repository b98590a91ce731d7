"""Learns a plane on a device that has room for so many samples at once, and runs out of memory with more.

Files in the current folder: `room` holds that number, `room-R` one for rank R; `passes` gets a line for each
pass: steps, samples; `weights.json` the result; `enough` ends it with an epoch not yet begun.
Arguments: `shards=N` makes it deterministic; `evaluate=1` puts all through the model after each epoch.
"""

import json
import sys
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from swell import train


class Device:
    """What of a device matters here: its memory."""

    def __init__(self, rank: int) -> None:
        own = Path(f"room-{rank}")
        self.room = int((own if own.exists() else Path("room")).read_text())

    def hold(self, samples: torch.Tensor) -> None:
        if len(samples) > self.room:
            raise torch.OutOfMemoryError(f"tried to allocate {len(samples)} of {self.room}")


settings = dict(argument.split("=") for argument in sys.argv[1:])
shards = int(settings["shards"]) if "shards" in settings else None
torch.set_default_dtype(torch.float64)
torch.manual_seed(0)
inputs = torch.randn(512, 8)
data = TensorDataset(inputs, inputs @ torch.arange(8.0).unsqueeze(1))
model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
loader = DataLoader(data, batch_size=64, shuffle=True)
run = train.elastic(model, optimizer, loader, deterministic=shards is not None, shards=shards)
with open("passes", "a") as passes:
    for epoch in run.epochs():
        if run.is_leader and Path("enough").exists():  # all others end a step of this epoch after this
            Path("last-draft").write_text(str(epoch))
            Path("last-draft").rename("last")
        for x, y in run.batches():
            Device(run.rank).hold(x)
            passes.write(f"{run.steps} {len(x)}\n")
            passes.flush()
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            run.backward(loss)
            run.step()
        if "evaluate" in settings:
            Device(run.rank).hold(inputs)
        if Path("last").exists() and epoch >= int(Path("last").read_text()):
            break
if run.is_leader:
    Path("weights.json").write_text(json.dumps([p.tolist() for p in model.parameters()]))

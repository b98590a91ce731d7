"""Trains a model in float64 that the processes of a worker have among them, and keeps a diary.

Arguments: `plain` (a loop of torch alone, in one process), `fsdp`, `tp` or `both`; epochs outside of Swell.
Files in the current folder: `diary`, see `plane.py`; `processes`: the pid of each; `enough`: end with an
epoch that has not begun yet.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.utils.data import DataLoader, TensorDataset

from swell import train

kind, epochs = sys.argv[1], int(sys.argv[2])
torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)
torch.manual_seed(0)
x = torch.randn(249, 6)  # the last of four batches has 57 samples: uneven parts of two workers
y = x.sin().sum(1, keepdim=True)
model = nn.Sequential(nn.Linear(6, 10), nn.GELU(), nn.Linear(10, 6), nn.LayerNorm(6), nn.Linear(6, 1))
kinds = {"fsdp": ("fsdp",), "tp": ("tp",), "both": ("fsdp", "tp"), "plain": ()}[kind]
mesh: Any = init_device_mesh("cpu", (2,) * len(kinds), mesh_dim_names=kinds) if kinds else None
if "tp" in kinds:
    parallelize_module(model, mesh["tp"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
if "fsdp" in kinds:
    fully_shard(model[0], mesh=mesh["fsdp"])
    fully_shard(model, mesh=mesh["fsdp"])
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, eps=1e-2)  # rates at which rounding does not grow
loader = DataLoader(TensorDataset(x, y), batch_size=64)


def whole() -> dict[str, list[float]]:
    """The model's weights, which all processes of a worker put together."""
    state: dict[str, Any] = model.state_dict()
    return {
        name: (value.full_tensor() if hasattr(value, "full_tensor") else value).flatten().tolist()
        for name, value in state.items()
    }


if kind == "plain":
    for _ in range(epochs):
        for a, b in loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(a), b).backward()
            optimizer.step()
    Path("weights.json").write_text(json.dumps({"steps": epochs * len(loader), "weights": whole()}))
    sys.exit()
run = train.elastic(model, optimizer, loader, epochs=epochs, mesh=mesh["fsdp"] if "fsdp" in kinds else None)
print(f"process {dist.get_rank()} of {dist.get_world_size()}", flush=True)
with open("processes", "a") as file:
    file.write(f"{os.getpid()}\n")
with open("diary", "a") as diary:
    for epoch in run.epochs():
        if run.is_leader and Path("enough").exists():  # all others end a step of this epoch after this
            Path("last-draft").write_text(str(epoch))
            Path("last-draft").rename("last")
        for a, b in run.batches():
            optimizer.zero_grad()
            run.backward(nn.functional.mse_loss(model(a), b))
            run.step()
            if run.is_leader and run.has_stepped:
                diary.write(f"{run.steps} {os.getpid()} {run.num_workers}\n")
                diary.flush()
        if Path("last").exists() and epoch >= int(Path("last").read_text()):
            break
weights = whole()
if run.is_leader:
    Path("weights.json").write_text(json.dumps({"steps": run.steps, "weights": weights}))
    print("the end", flush=True)

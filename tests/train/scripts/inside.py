"""Trains a model that is divided among the processes of a worker; `argv`: how, and a file for the end.

`fsdp`: fully_shard. `tp`: two linear layers, cut column- and row-wise. `both`: the one in the other.
`plain`: not at all, `none`: nor clipped.
"""

import json
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.utils.data import DataLoader, TensorDataset

from swell import train

KIND, PATH = sys.argv[1:3]
torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
model = nn.Sequential(nn.Linear(6, 10), nn.GELU(), nn.Linear(10, 5), nn.LayerNorm(5), nn.Linear(5, 1))
inner = None
if KIND == "fsdp":
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("fsdp",))
    inner = mesh["fsdp"]
    fully_shard(model[0], mesh=inner)
    fully_shard(model, mesh=inner)
elif KIND == "tp":
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
    parallelize_module(model, mesh["tp"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
elif KIND == "both":
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("fsdp", "tp"))
    inner = mesh["fsdp"]
    parallelize_module(model, mesh["tp"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
    fully_shard(model, mesh=inner)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, foreach=False)
x = torch.randn(90, 6)
loader = DataLoader(TensorDataset(x, x.sin().sum(1, keepdim=True)), batch_size=13, shuffle=True)
run = train.elastic(model, optimizer, loader, epochs=4, mesh=inner)
losses = []
for _ in run.epochs():
    for inputs, targets in run.batches():
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), targets)
        losses.append(float(run.backward(loss)))
        if KIND in ("plain", "fsdp"):  # torch clips no parameters of different meshes together
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        run.step()
whole = {
    name: (value.full_tensor() if hasattr(value, "full_tensor") else value).flatten().tolist()
    for name, value in model.state_dict().items()
}
if run.is_leader:
    with open(PATH, "w") as file:
        json.dump({"losses": losses, "model": whole}, file)
if dist.is_initialized():
    dist.destroy_process_group()

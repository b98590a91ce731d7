"""A classifier whose layers are cut column- and row-wise: each process has a part of each layer.

torchrun --nproc-per-node 2 tensor_parallel_mlp.py
"""

import os

import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from swell import train

device = "cuda" if torch.cuda.is_available() else "cpu"
if device == "cuda":
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
mesh = init_device_mesh(device, (int(os.environ["WORLD_SIZE"]),), mesh_dim_names=("tp",))
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 256), nn.GELU(), nn.Linear(256, 16), nn.LayerNorm(16), nn.Linear(16, 2))
parallelize_module(model.to(device), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
x = torch.randn(2000, 16)
y = (x.square().sum(1) > 16).long()
loader = DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True)
run = train.elastic(model, optimizer, loader, epochs=10)  # each process sees all samples of its worker
for epoch in run.epochs():
    for a, b in run.batches():
        optimizer.zero_grad()
        mean = run.backward(functional.cross_entropy(model(a), b))
        run.step()
    if run.is_leader:
        print(f"epoch {epoch}: {run.num_workers} workers, loss {float(mean):.3f}", flush=True)

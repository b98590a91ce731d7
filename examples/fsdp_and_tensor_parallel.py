"""Layers that are cut by tensor parallelism, and what is left of each by FSDP2: a mesh of two dimensions.

torchrun --nproc-per-node 4 fsdp_and_tensor_parallel.py
"""

import os

import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from swell import train

WIDTH, LAYERS = 32, 3
device = "cuda" if torch.cuda.is_available() else "cpu"
if device == "cuda":
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
shape = (int(os.environ["WORLD_SIZE"]) // 2, 2)
mesh = init_device_mesh(device, shape, mesh_dim_names=("fsdp", "tp"))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(functional.gelu(self.up(self.norm(x))))


torch.manual_seed(0)
model = nn.Sequential(*(Block() for _ in range(LAYERS)), nn.Linear(WIDTH, 1)).to(device)
for block in model[:-1]:
    parallelize_module(block, mesh["tp"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
    fully_shard(block, mesh=mesh["fsdp"])
fully_shard(model, mesh=mesh["fsdp"])
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
x = torch.randn(640, WIDTH)
loader = DataLoader(TensorDataset(x, x.sin().sum(1, keepdim=True)), batch_size=64, shuffle=True)
run = train.elastic(model, optimizer, loader, epochs=10, mesh=mesh["fsdp"])
for epoch in run.epochs():
    for a, b in run.batches():
        optimizer.zero_grad()
        mean = run.backward(functional.mse_loss(model(a), b))
        run.step()
    if run.is_leader:
        print(f"epoch {epoch}: {run.num_workers} workers, loss {float(mean):.3f}", flush=True)

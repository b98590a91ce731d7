"""A small GPT whose parameters, gradients and optimizer state are divided by FSDP2.

torchrun --nproc-per-node 2 fsdp_gpt.py
"""

import os

import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from swell import train

VOCABULARY, WIDTH, LENGTH, LAYERS = 97, 64, 32, 4
device = "cuda" if torch.cuda.is_available() else "cpu"
if device == "cuda":
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
mesh = init_device_mesh(device, (int(os.environ["WORLD_SIZE"]),), mesh_dim_names=("fsdp",))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        qkv = self.qkv(self.norms[0](x)).unflatten(-1, (3, 2, WIDTH // 2))
        mixed = functional.scaled_dot_product_attention(*qkv.permute(2, 0, 3, 1, 4), is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(-2))
        return x + self.mlp(self.norms[1](x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.head = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY))

    def forward(self, x):
        x = self.embedding(x) + self.positions(torch.arange(x.shape[1], device=x.device))
        for block in self.blocks:
            x = block(x)
        return self.head(x)


torch.manual_seed(0)
model = GPT().to(device)
for block in model.blocks:
    fully_shard(block, mesh=mesh)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
tokens = (torch.arange(640 * LENGTH + 1) * 7 % VOCABULARY).unfold(0, LENGTH + 1, LENGTH)
loader = DataLoader(TensorDataset(tokens), batch_size=64, shuffle=True)
run = train.elastic(model, optimizer, loader, epochs=10, mesh=mesh)
for epoch in run.epochs():
    for (batch,) in run.batches():
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
        mean = run.backward(loss)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        run.step()
    if run.is_leader:
        print(f"epoch {epoch}: {run.num_workers} workers, loss {float(mean):.3f}", flush=True)

"""A GPT-2-like model in `bfloat16` with `torch.compile`: GPT-2 with 124 million parameters by default."""

import argparse

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

from swell import train

parser = argparse.ArgumentParser()
parser.add_argument("--tokens", help="a file of tokens, 16 bits each; without it, made-up ones")
parser.add_argument("--samples", type=int, default=20_000, help="of made-up tokens")
parser.add_argument("--vocabulary", type=int, default=50304)
parser.add_argument("--layers", type=int, default=12)
parser.add_argument("--width", type=int, default=768)
parser.add_argument("--length", type=int, default=512)
parser.add_argument("--batch", type=int, default=32)
parser.add_argument("--epochs", type=int, default=1)
parser.add_argument("--rate", type=float, default=3e-4)
parser.add_argument("--eager", action="store_true", help="do not compile")
args = parser.parse_args()


class Tokens(Dataset):
    def __init__(self):
        if args.tokens:
            self.tokens = np.memmap(args.tokens, dtype=np.uint16, mode="r")
        else:
            self.tokens = np.arange(args.samples * args.length + 1, dtype=np.int64) * 7 % 97

    def __len__(self):
        return (len(self.tokens) - 1) // args.length

    def __getitem__(self, index):
        begin = index * args.length
        piece = torch.from_numpy(self.tokens[begin : begin + args.length + 1].astype(np.int64))
        return piece[:-1], piece[1:]


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = max(1, args.width // 64)
        self.norms = nn.ModuleList(nn.LayerNorm(args.width) for _ in range(2))
        self.qkv, self.out = nn.Linear(args.width, 3 * args.width), nn.Linear(args.width, args.width)
        self.mlp = nn.Sequential(
            nn.Linear(args.width, 4 * args.width), nn.GELU(), nn.Linear(4 * args.width, args.width)
        )

    def forward(self, x):
        batch, length, width = x.shape
        qkv = self.qkv(self.norms[0](x)).view(batch, length, 3, self.heads, width // self.heads)
        mixed = functional.scaled_dot_product_attention(*qkv.permute(2, 0, 3, 1, 4), is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.norms[1](x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(args.vocabulary, args.width)
        self.positions = nn.Embedding(args.length, args.width)
        self.blocks = nn.Sequential(*(Block() for _ in range(args.layers)), nn.LayerNorm(args.width))
        for table in (self.embedding, self.positions):
            nn.init.normal_(table.weight, std=0.02)

    def forward(self, x):
        x = self.embedding(x) + self.positions(torch.arange(x.shape[1], device=x.device))
        return self.blocks(x) @ self.embedding.weight.T


def loss_of(x, y):
    with torch.autocast(device, dtype=torch.bfloat16):
        return functional.cross_entropy(model(x).flatten(0, 1), y.flatten())


device = "cuda" if torch.cuda.is_available() else "cpu"
data = Tokens()
model = GPT().to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=args.rate, fused=True)
if not args.eager:  # compiled here, while the other workers train, and not in the first step with them
    model = torch.compile(model, dynamic=True)
    x, y = next(iter(DataLoader(data, batch_size=4)))
    loss_of(x.to(device), y.to(device)).backward()
    optimizer.zero_grad()

loader = DataLoader(data, batch_size=args.batch, shuffle=True, drop_last=True, pin_memory=device == "cuda")
run = train.elastic(model, optimizer, loader, epochs=args.epochs)
for epoch in run.epochs():
    for x, y in run.batches():
        optimizer.zero_grad()
        loss = loss_of(x, y)
        mean = run.backward(loss)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        run.step()
    if run.is_leader:
        print(f"epoch {epoch}: {run.steps} steps, loss {float(mean):.3f}")

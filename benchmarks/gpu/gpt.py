"""A model like GPT-2 in bfloat16, trained by Swell or by plain PyTorch.

`python -m benchmarks.gpu.gpt SIZE`: as a job of a platform, until it is ended. `... SIZE plain|alone STEPS`:
in plain `python`, by PyTorch or by Swell; prints the median time of a step.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, pairwise

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from swell import train

ENDLESS = 10**6
NUM_WARM_UPS = 10
NUM_SAMPLES = 4096


@dataclass(frozen=True)
class Size:
    layers: int
    width: int
    length: int  #: tokens of a sample
    batch: int
    vocabulary: int


SIZES = {
    "124M": Size(12, 768, 512, 32, 50304),
    "0.4M": Size(4, 64, 64, 32, 2048),
    "tiny": Size(2, 64, 16, 32, 128),
}


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.heads = max(1, width // 64)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        qkv = self.qkv(self.norms[0](x)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = qkv.permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        mapped: torch.Tensor = self.mlp(self.norms[1](x))
        return x + mapped


class GPT(nn.Module):
    def __init__(self, size: Size) -> None:
        super().__init__()
        self.embedding = nn.Embedding(size.vocabulary, size.width)
        self.positions = nn.Embedding(size.length, size.width)
        blocks = (Block(size.width) for _ in range(size.layers))
        self.blocks = nn.Sequential(*blocks, nn.LayerNorm(size.width))
        for table in (self.embedding, self.positions):
            nn.init.normal_(table.weight, std=0.02)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        hidden: torch.Tensor = self.blocks(x)
        return hidden @ self.embedding.weight.T


class SimGang:
    """What both ways share."""

    def __init__(self, size: Size) -> None:
        torch.manual_seed(0)
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.model = GPT(size).to(self.device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-4, fused=True)
        tokens = torch.randint(size.vocabulary, (NUM_SAMPLES, size.length + 1))
        pins = self.device.type == "cuda"
        self.loader = DataLoader(
            TensorDataset(tokens), batch_size=size.batch, shuffle=True, drop_last=True, pin_memory=pins
        )

    def loss_of(self, tokens: torch.Tensor) -> torch.Tensor:
        with torch.autocast(self.device.type, dtype=torch.bfloat16):
            logits = self.model(tokens[:, :-1])
            return nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())

    def end_step(self) -> float:
        """A step is timed by its end, not by its launch."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter()


def plain(training: SimGang) -> Iterator[float]:
    """The ends of steps made by PyTorch alone."""
    while True:
        for (tokens,) in training.loader:
            loss = training.loss_of(tokens.to(training.device, non_blocking=True))
            training.optimizer.zero_grad()
            loss.backward()
            training.optimizer.step()
            yield training.end_step()


def elastic(training: SimGang) -> Iterator[float]:
    """The ends of steps made by Swell."""
    run = train.elastic(training.model, training.optimizer, training.loader, epochs=ENDLESS)
    for _ in run.epochs():
        for (tokens,) in run.batches():
            loss = training.loss_of(tokens)
            training.optimizer.zero_grad()
            run.backward(loss)
            run.step()
            if run.has_stepped:  # else it comes again
                yield training.end_step()


def main() -> None:
    size, *rest = sys.argv[1:]
    training = SimGang(SIZES[size])
    if not rest:
        for _ in elastic(training):
            pass
        return
    way, num_steps = rest
    steps = plain(training) if way == "plain" else elastic(training)
    ends_s = list(islice(steps, NUM_WARM_UPS + int(num_steps)))[NUM_WARM_UPS:]
    print(statistics.median(after - before for before, after in pairwise(ends_s)))


if __name__ == "__main__":
    main()

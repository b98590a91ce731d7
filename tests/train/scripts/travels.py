"""Learns with everything that has a state, and writes down what became of each part.

Arguments: file for the result, epochs.
"""

import hashlib
import json
import random
import sys
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from swell import train


class Average:
    """Of the weights, over the steps."""

    def __init__(self, model: nn.Module) -> None:
        self.weights = [parameter.detach().clone() for parameter in model.parameters()]

    def add(self, model: nn.Module) -> None:
        for mean, parameter in zip(self.weights, model.parameters(), strict=True):
            mean.lerp_(parameter.detach(), 0.1)

    def state_dict(self) -> dict[str, object]:
        return {"weights": self.weights}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.weights = [tensor.clone() for tensor in state["weights"]]


class Sampler:
    """The script's own generator and what it has drawn."""

    def __init__(self) -> None:
        self.generator = torch.Generator().manual_seed(3)
        self.drawn: list[int] = []

    def draw(self) -> None:
        self.drawn.append(int(torch.randint(1000, (), generator=self.generator)))

    def state_dict(self) -> dict[str, object]:
        return {"generator": self.generator.get_state(), "drawn": self.drawn}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.generator.set_state(state["generator"].cpu())
        self.drawn = state["drawn"]


def digest(tree: object) -> str:
    if isinstance(tree, torch.Tensor):
        return hashlib.sha256(tree.contiguous().numpy().tobytes()).hexdigest()[:12]
    if isinstance(tree, dict):
        return str({str(key): digest(value) for key, value in tree.items()})
    if isinstance(tree, list | tuple):
        return str([digest(value) for value in tree])
    return repr(tree)


result, epochs = sys.argv[1:]
torch.manual_seed(7)
x = torch.randn(48, 5)
y = torch.sin(x.sum(1, keepdim=True))
model = nn.Sequential(nn.Linear(5, 16), nn.BatchNorm1d(16), nn.Tanh(), nn.Dropout(0.2), nn.Linear(16, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.02, amsgrad=True)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.05, total_steps=4 * int(epochs))
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=30)
average, sampler = Average(model), Sampler()
run = train.elastic(
    model,
    optimizer,
    DataLoader(TensorDataset(x, y, torch.arange(48)), batch_size=12, shuffle=True),
    epochs=int(epochs),
    scheduler=scheduler,
    state={"average": average, "sampler": sampler},
    deterministic=True,
    shards=4,
)
for _ in run.epochs():
    for a, b, _ in run.batches():
        optimizer.zero_grad()
        noisy = a + 0.01 * torch.randn(a.shape) * random.random() * float(np.random.random_sample())
        loss = functional.mse_loss(model(noisy), b)
        scaler.scale(loss).backward()
        run.step(loss)
        if run.has_stepped:
            average.add(model)
            sampler.draw()

if run.is_leader:
    parts = {
        "steps": run.steps,
        "model": digest(model.state_dict()),
        "optimizer": digest(optimizer.state_dict()),
        "scheduler": digest(scheduler.state_dict()),
        "scaler": digest(scaler.state_dict()),
        "average": digest(average.state_dict()),
        "sampler": digest(sampler.state_dict()),
        "next random numbers": repr(
            [random.random(), float(np.random.random_sample()), float(torch.rand(()))]
        ),
    }
    with open(result, "w") as file:
        json.dump(parts, file)

"""Fits a small model in float64, with an Adam state, a scheduler, a counter and uneven batches.

Arguments: file for the result, epochs, further words `metric` (report the loss as a metric), `leave` (end
the loop early), `load` (load in two processes), `wide` (a batch of 24, processes that load
stay, and each worker prints its samples of each step).
"""

import json
import sys
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from swell import train


class Counter:
    """A user's own object that must travel."""

    def __init__(self) -> None:
        self.seen: dict[str, int] = {}

    def state_dict(self) -> dict[str, object]:
        return {"seen": self.seen, "pair": (1, None, 2.5)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        assert state["pair"] == (1, None, 2.5)
        self.seen = state["seen"]


result, epochs, *words = sys.argv[1:]
torch.set_default_dtype(torch.float64)
torch.manual_seed(7)
x = torch.randn(45, 5)
y = torch.sin(x.sum(1, keepdim=True))
model = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 1))
model.unused = nn.Parameter(torch.ones(3))  # never gets a gradient: weight decay must not touch it
optimizer = torch.optim.AdamW(model.parameters(), lr=0.02, weight_decay=0.1)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 20, 0.8)
counter = Counter()
is_wide, num_loading = "wide" in words, 2 * ("load" in words)
loader = DataLoader(
    TensorDataset(x, y),
    batch_size=24 if is_wide else 6,
    shuffle=True,
    num_workers=num_loading,
    persistent_workers=is_wide and num_loading > 0,
)
run = train.elastic(
    model, optimizer, loader, epochs=int(epochs), scheduler=scheduler, state={"counter": counter}
)
losses = {}
for epoch in run.epochs():
    for a, b in run.batches():
        optimizer.zero_grad()
        loss = functional.mse_loss(model(a), b)
        if is_wide:
            print("share", run.steps, len(a), flush=True)
        mean = run.backward(loss)
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        step = run.steps
        run.step()
        if run.steps > step:
            losses[step] = float(mean)
            counter.seen[f"epoch {epoch}"] = counter.seen.get(f"epoch {epoch}", 0) + 1
    if "metric" in words:
        run.report(loss=float(mean))
    if "leave" in words and epoch == 1:
        break

if run.is_leader:
    with open(result, "w") as file:
        weights = [
            value for parameter in model.parameters() for value in parameter.detach().flatten().tolist()
        ]
        rates = scheduler.get_last_lr()
        json.dump(
            {
                "steps": run.steps,
                "weights": weights,
                "rates": rates,
                "seen": counter.seen,
                "losses": losses,
            },
            file,
        )

"""Trains in one of the ways of other people's scripts, in float64, with Swell or in a plain loop of torch.

Arguments: a file for the result (`RANK` in its name is replaced), one of `KINDS`, epochs, further words:
`plain` (the loop as it was before Swell), `passes` (few samples at once), `shards` (deterministic).
The functions that clip are imported by name, before Swell is.
"""

import json
import os
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils import clip_grad_norm_
from torch.utils.data import DataLoader, TensorDataset

from swell import train

NUM_SAMPLES, BATCH, LENGTH = 45, 12, 3
IGNORED = -100

result, kind, epochs, *words = sys.argv[1:]
torch.set_default_dtype(torch.float64)
torch.manual_seed(7)
x = torch.randn(NUM_SAMPLES, LENGTH, 5)
y = (x[..., 0] > 0).long() + (x[..., 1] > 0.3).long()
y[torch.rand(NUM_SAMPLES, LENGTH) < 0.5] = IGNORED
y[:6] = IGNORED  # of a whole worker
y[2 * BATCH : 3 * BATCH] = IGNORED  # of a whole batch
class_weights = torch.tensor([0.2, 1.0, 3.0])
first, last = nn.Linear(5, 8), nn.Linear(8, 3)
model = nn.Sequential(first, nn.Tanh(), last)
optimizer = torch.optim.SGD(model.parameters(), lr=0.003 if kind == "sum" else 0.1, momentum=0.9)
scaler = torch.amp.GradScaler("cpu", init_scale=256.0, growth_interval=7)
norm = torch.zeros(())

Answer = tuple[torch.Tensor, float | None]  #: loss and weight of a pass


run: Any = None  #: unless it trains plainly


def go_backward(loss: torch.Tensor, weight: Any = None, scaler: Any = None) -> torch.Tensor:
    if run is not None:
        told: torch.Tensor = run.backward(loss, weight=weight, scaler=scaler)
        return told
    (loss if scaler is None else scaler.scale(loss)).backward()
    return loss


def tokens(a: torch.Tensor, b: torch.Tensor) -> Answer:
    mask = b != IGNORED
    loss = functional.cross_entropy(model(a).transpose(1, 2), b.clamp(min=0), reduction="none")
    return go_backward((loss * mask).sum() / mask.sum(), mask.sum()), float(mask.sum())


def classes(a: torch.Tensor, b: torch.Tensor) -> Answer:
    loss = functional.cross_entropy(model(a)[:, 0], b[:, 0].clamp(min=0), weight=class_weights)
    weight = class_weights[b[:, 0].clamp(min=0)].sum()
    return go_backward(loss, weight), float(weight)


def summed(a: torch.Tensor, b: torch.Tensor) -> Answer:
    return go_backward(functional.mse_loss(model(a), a[..., :3], reduction="sum")), None


def mean(a: torch.Tensor) -> torch.Tensor:
    return functional.mse_loss(model(a), a[..., :3])


def clipped_by_largest(a: torch.Tensor, b: torch.Tensor) -> Answer:
    loss = go_backward(mean(a))
    note(clip_grad_norm_([first.weight, last.bias], max_norm=0.03, norm_type=float("inf")))
    clip_grad_norm_(model.parameters(), 0.2, 1.0)
    return loss, None


def clipped_tokens(a: torch.Tensor, b: torch.Tensor) -> Answer:
    loss, weight = tokens(a, b)
    if not weight and "plain" in words:
        optimizer.zero_grad()  # NaN
    note(clip_grad_norm_(model.parameters(), 0.05))
    return loss, weight


def one_graph(a: torch.Tensor, b: torch.Tensor) -> Answer:
    z = model(a)
    one, other = functional.mse_loss(z, a[..., :3]), z.abs().mean()
    one.backward(retain_graph=True)
    loss = go_backward(other)
    note(clip_grad_norm_(model.parameters(), 0.1))
    return loss, None


def scaled(a: torch.Tensor, b: torch.Tensor) -> Answer:
    loss = go_backward(mean(a), scaler=scaler)
    scaler.unscale_(optimizer)
    note(clip_grad_norm_(model.parameters(), 0.05))
    return loss, None


KINDS: dict[str, Callable[[torch.Tensor, torch.Tensor], Answer]] = {
    "tokens": tokens,
    "classes": classes,
    "sum": summed,
    "clipped by largest": clipped_by_largest,
    "clipped tokens": clipped_tokens,
    "one graph": one_graph,
    "scaled": scaled,
}
compute = KINDS[kind]
seen: dict[int, Any] = {}  #: by step: its loss, and the norm that the script got


def note(total: torch.Tensor) -> None:
    global norm
    norm = total


def train_plainly() -> None:
    step = 0
    for _ in range(int(epochs)):
        for a, b in DataLoader(TensorDataset(x, y), batch_size=BATCH):
            optimizer.zero_grad()
            loss, weight = compute(a, b)
            if weight == 0:
                loss = torch.zeros(())
            elif kind == "scaled":
                scaler.step(optimizer)
                scaler.update()
            else:
                optimizer.step()
            seen[step], step = (loss.item(), norm.item()), step + 1


def train_elastically() -> None:
    global run
    run = train.elastic(
        model,
        optimizer,
        DataLoader(TensorDataset(x, y), batch_size=BATCH),
        epochs=int(epochs),
        loss_reduction="sum" if kind.startswith("sum") else "mean",
        max_local_batch=2 if "passes" in words else None,
        deterministic="shards" in words,
    )
    for _ in run.epochs():
        for a, b in run.batches():
            optimizer.zero_grad()
            step = run.updates
            total, _ = compute(a, b)
            run.step()
            if run.has_stepped:
                seen[step] = (total.item(), norm.item())


if "plain" in words:
    train_plainly()
else:
    train_elastically()
with open(result.replace("RANK", os.environ.get("RANK", "0")), "w") as file:
    weights = [value for parameter in model.parameters() for value in parameter.flatten().tolist()]
    json.dump({"weights": weights, "seen": seen, "scale": scaler.get_scale()}, file)

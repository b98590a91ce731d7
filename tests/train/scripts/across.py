"""Trains over several hosts, as it believes, and at update `AT` does what its second argument says.

`goes on`: nothing. `looks`: rank 0 takes a batch, goes backward and leaves the loop before `run.step`.
`raises`: rank 0 raises between the backward pass and `run.step`. `leaves`: all leave both loops there, some
of them with fewer layers used. The first argument is a file for the result, the third the number of steps.
"""

import json
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from swell import train
from swell.train.collective.bucketed import BucketedGradients

AT = 8

result, habit, steps = sys.argv[1:]
BucketedGradients.bucket_bytes = 64
torch.set_default_dtype(torch.float64)
torch.manual_seed(7)
x = torch.randn(48, 5)
model = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
loader = DataLoader(TensorDataset(x), batch_size=6, shuffle=True)
run = train.elastic(model, optimizer, loader, steps=int(steps))
begun: list[int] = []  # buckets that were begun in each backward pass


def go_backward(a: torch.Tensor) -> torch.Tensor:
    optimizer.zero_grad()
    num_unused = 2 if habit == "leaves" and run.rank and run.updates == AT else 0
    b = model[num_unused:](a if not num_unused else torch.tanh(a @ torch.ones(5, 16)))
    loss: torch.Tensor = b.square().mean()
    loss.backward()
    chosen = run._task.gradients._chosen  # type: ignore[attr-defined]
    begun.append(chosen._early.num_begun if isinstance(chosen, BucketedGradients) else 0)
    return loss


has_looked = False
for _ in run.epochs():
    if habit == "looks" and run.updates == AT and run.is_leader and not has_looked:
        has_looked = True
        for (a,) in run.batches():
            go_backward(a)
            break
    for (a,) in run.batches():
        loss = go_backward(a)
        if habit == "raises" and run.updates == AT and run.is_leader:
            raise ValueError("half a step")
        if habit == "leaves" and run.updates == AT:
            break
        run.step(loss)
    if habit == "leaves":
        break

if run.is_leader:
    with open(result, "w") as file:
        weights = [value for parameter in model.parameters() for value in parameter.flatten().tolist()]
        json.dump({"steps": run.steps, "weights": weights, "begun": begun}, file)

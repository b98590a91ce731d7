"""Knows nothing of Swell or of a group. Arguments: what it does with the environment, and how many steps."""

import os
import sys

import torch

way, most = sys.argv[1:]
if way == "copies":
    assert {**os.environ, "X": "1"}["WORLD_SIZE"] == dict(os.environ)["WORLD_SIZE"]
elif way == "reads":
    assert int(os.environ.get("WORLD_SIZE", "0")) > 0
elif way == "knows":
    assert int(os.environ["RANK"]) >= 0
weight = torch.nn.Parameter(torch.ones(3))
optimizer = torch.optim.SGD([weight], lr=0.1)
for _ in range(int(most)):
    weight.grad = torch.ones(3)
    optimizer.step()
print("the end", flush=True)

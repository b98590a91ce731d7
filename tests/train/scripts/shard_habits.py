"""A model with divided blocks, and a loop with a habit that does not go with them.

Argument: the habit, see the loop.
"""

import random
import sys

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from swell import train

[habit] = sys.argv[1:]
torch.manual_seed(1)
data = torch.randn(32, 4)


class Stack(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(4, 4) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for number, block in enumerate(self.blocks):
            assert isinstance(block, nn.Linear)
            if habit != "at random" or number in (0, 3) or random.random() < 0.5:
                x = x + (functional.linear(x, block.weight) if habit == "functional" else block(x)).tanh()
        return x


model = Stack()
averaged = torch.optim.swa_utils.AveragedModel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(data), batch_size=8)
run = train.elastic(model, optimizer, loader, epochs=10, shard=[nn.Linear])
if habit == "before":
    model(data)
scaler = torch.amp.GradScaler("cpu")
for _ in run.epochs():
    for (x,) in run.batches():
        optimizer.zero_grad()
        loss = model(x).square().mean()
        (scaler.scale(loss) if habit == "scaler" else loss).backward()
        if habit == "written":
            model.blocks[0].weight.grad = torch.ones(4, 4)
        if habit == "own norm":
            torch.nn.utils.get_total_norm([each.grad for each in model.parameters() if each.grad is not None])
        run.step(loss, weight=2.0 if habit == "weight" else None)
        if habit == "average":
            averaged.update_parameters(model)
        if habit == "log":
            print(sum(float(each.norm()) for each in model.parameters()))
    if habit == "alone" and run.rank == 0:
        model(data)
    if habit == "state_dict":
        model.state_dict()

"""A model with divided blocks, and a loop with a habit that does not go with them.

Argument: the habit, see the loop.
"""

import sys

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from swell import train

[habit] = sys.argv[1:]
torch.manual_seed(1)
data = torch.randn(32, 4)


class InPlace(nn.Linear):
    """A block that reads its parameters in what it does in place."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = super().forward(x).clone()
        y[:, :2] = self.weight[:2, 0]
        y += self.bias
        return y.mul_(self.bias)


class Limited(nn.Linear):
    """A block that limits its weights before it uses them."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.weight.data = self.weight.data.clamp(-1.0, 1.0)
        return super().forward(x)


KINDS = {"in place": InPlace, "limited": Limited}


class Stack(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(KINDS.get(habit, nn.Linear)(4, 4) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            assert isinstance(block, nn.Linear)
            x = x + (functional.linear(x, block.weight) if habit == "functional" else block(x)).tanh()
        return x


model = Stack()
second = [block for block in model.blocks if isinstance(block, nn.Linear)][1]
initial = {name: value.clone() for name, value in model.state_dict().items()}
averaged = torch.optim.swa_utils.AveragedModel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
fresh = optimizer.state_dict()
loader = DataLoader(TensorDataset(data), batch_size=8)
run = train.elastic(model, optimizer, loader, epochs=10, shard=[nn.Linear])
if habit == "before":
    model(data)
if habit == "loaded at once":
    model.load_state_dict(initial)
scaler = torch.amp.GradScaler("cpu")
for epoch in run.epochs():
    for (x,) in run.batches():
        optimizer.zero_grad()
        if habit == "zeroed before":
            for parameter in model.parameters():
                parameter.grad = None
        loss = model(x).square().mean()
        weight = 2.0 if habit == "weight" else None
        run.backward(loss, weight=weight, scaler=scaler if habit == "scaler" else None)
        if habit == "written":
            model.blocks[0].weight.grad = torch.ones(4, 4)
        if habit == "own norm":
            torch.nn.utils.get_total_norm([each.grad for each in model.parameters() if each.grad is not None])
        if habit.startswith("zeroed between") and run.steps > (0 if "early" in habit else 12):
            optimizer.zero_grad()
        if habit == "taken" and run.steps > 12:
            model.blocks[0].weight.grad = None
        if habit == "gradient":
            print(float(sum(each.grad.norm() for each in model.parameters() if each.grad is not None)))
        run.step()
        if habit == "zeroed after":
            for parameter in model.parameters():
                if parameter.grad is not None:
                    parameter.grad.zero_()
                parameter.grad = None
        if habit == "average":
            averaged.update_parameters(model)
    if habit == "alone" and run.rank == 0:
        model(data)
    if habit == "state_dict":
        model.state_dict()
    if habit == "state saved":
        optimizer.state_dict()
    if epoch == 2:
        if habit == "filled":
            nn.init.constant_(second.weight, 0.1)
        if habit == "state cleared":
            optimizer.state.clear()
        if habit == "state loaded":
            optimizer.load_state_dict({"state": {}, "param_groups": fresh["param_groups"]})

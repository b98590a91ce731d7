"""Raises in a step. Arguments: the step, from 1; ranks, as `0,1`; a folder; where: `loop`, `after`, `update`.

Each of them writes the model as it was after the step before into the folder, as RANK.pt.
"""

import copy
import sys
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from swell import train

step, ranks = int(sys.argv[1]), {int(rank) for rank in sys.argv[2].split(",")}
folder, where = Path(sys.argv[3]), sys.argv[4]


class Optimizer(torch.optim.Adam):
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        super().step()
        if where == "update" and is_last():
            raise ZeroDivisionError("after half of an update")


def is_last() -> bool:
    return run is not None and run.steps + 1 == step and run.rank in ranks


run: train.Run | None = None  # an optimizer is tried before


def fail(before: dict[str, torch.Tensor]) -> None:
    assert run is not None
    torch.save(before, folder / f"{run.rank}.pt")
    raise ZeroDivisionError("in the loop")


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
optimizer = Optimizer(model.parameters(), 0.01)
loader = DataLoader(TensorDataset(torch.randn(60, 3)), batch_size=6, shuffle=True)
run = train.elastic(model, optimizer, loader, epochs=10)
for _ in run.epochs():
    before = copy.deepcopy(model.state_dict())
    batches = run.batches()  # held by a name: it does not end with its loop
    for (x,) in batches:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        run.backward(loss)
        if where == "loop" and is_last():
            fail(before)
        run.step()
        before = copy.deepcopy(model.state_dict())
        if where == "after" and is_last():
            fail(before)

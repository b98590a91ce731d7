"""Trains with an object that cannot be sent or saved while the file in the first argument is there."""

import sys
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from swell import train


class Moody:
    def state_dict(self) -> dict[str, object]:
        return {"callback": print if Path(sys.argv[1]).exists() else None}

    def load_state_dict(self, state: dict[str, object]) -> None:
        assert state == {"callback": None}


model = nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
loader = DataLoader(TensorDataset(torch.ones(60, 1)), batch_size=6)
run = train.elastic(model, optimizer, loader, epochs=10, state={"moody": Moody()})
for _ in run.epochs():
    for (x,) in run.batches():
        optimizer.zero_grad()
        loss = model(x).mean()
        run.backward(loss)
        run.step()

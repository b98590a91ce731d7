"""plane.py's lesson on one that has something wrong with it, as files in the current folder say.

`stuck` and `raises` hold a pid: that process loops for ever, or raises, in its next step. While `reading` is
there, who is to read a peer's state makes the file `blocked` and waits. `loads` says how many processes load.
Keeps a diary of its steps, and in `from-PID` the first step of a process.
"""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from swell import train
from swell.train.state import state_transfer
from swell.train.state.state_transfer import StateOffer, read_memory


def is_meant(name: str) -> bool:
    try:
        return Path(name).read_text() == str(os.getpid())
    except FileNotFoundError:
        return False


def hang(name: str) -> None:
    while is_meant(name):
        time.sleep(0.01)


def read_late(offer: StateOffer, targets: Sequence[torch.Tensor]) -> bool:
    while Path("reading").exists():
        Path("blocked").touch()
        time.sleep(0.01)
    return read_memory(offer, targets)


patch.object(state_transfer, "read_memory", read_late).start()
torch.manual_seed(0)
x = torch.randn(512, 8)
y = (x @ torch.arange(8.0) > 0).long()
model = nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
num_loaders = int(Path("loads").read_text()) if Path("loads").exists() else 0
loader = DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True, num_workers=num_loaders)
run = train.elastic(model, optimizer, loader, epochs=1)
Path(f"from-{os.getpid()}").write_text(str(run.steps + 1))
with open("diary", "a") as diary:
    for _ in run.epochs():
        for a, b in run.batches():
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(a), b)
            run.backward(loss)
            hang("stuck")
            if is_meant("raises"):
                raise ArithmeticError("a mistake on one worker")
            before = run.steps
            run.step()
            if run.is_leader and run.steps > before:
                diary.write(f"{run.steps} {os.getpid()} {run.num_workers}\n")
                diary.flush()

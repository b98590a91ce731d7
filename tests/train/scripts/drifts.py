"""Trains as scripts do that were written for one process, with what lets its workers drift apart.

Arguments: a folder for the hashes, and the mistake:
`scheduler`: it is stepped in the loop; `plateau`: ReduceLROnPlateau sees a worker's own loss; `counter`: the
learning rate comes from the script's own number of steps; `second`: an update by hand, for a part of the
model; `momentum`: set by hand; `known`: a scheduler of elastic()'s is stepped by hand as
well; `mended`: all of this as the warnings say; `unsendable`: as `second`, and a part of the state cannot be
sent.

At the end of each epoch each worker writes a hash of its parameters and its optimizer's state.
"""

import hashlib
import itertools
import sys
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from swell import train
from swell.train.data.stateful import Stateful

folder, mistake = sys.argv[1:]
torch.manual_seed(7)
x = torch.randn(48, 5)
y = torch.sin(x.sum(1, keepdim=True)) + 0.3 * torch.randn(48, 1)
model = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 1))
if mistake == "plateau":
    model.append(nn.BatchNorm1d(1))
is_second = mistake in ("second", "unsendable")
has_second = is_second or mistake == "mended"
trained = model[0].parameters() if has_second else model.parameters()
optimizer = torch.optim.SGD(trained, lr=0.05, momentum=0.9)
second = torch.optim.Adam(model[2].parameters(), lr=0.01)
# Of the number of its steps alone: one that comes later differs, however many steps later
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda steps: 0.9 ** (steps // 5))
plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.7, patience=2)
second_plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(second, factor=0.7, patience=2)
loader = DataLoader(TensorDataset(x, y), batch_size=6, shuffle=True)
is_mended = mistake == "mended"
known = scheduler if mistake == "known" or is_mended else None
further: dict[str, Stateful] = {"second": second, "plateau": second_plateau} if is_mended else {}


class Handle:
    """Sound when the job begins."""

    def state_dict(self) -> dict[str, object]:
        return {"file": object() if run is not None else None}

    def load_state_dict(self, state: dict[str, object]) -> None:
        pass


run: train.Run | None = None
if mistake == "unsendable":
    further["reader"] = Handle()
run = train.elastic(model, optimizer, loader, epochs=10, scheduler=known, state=further)


def stepping(scheduler: torch.optim.lr_scheduler.LambdaLR) -> Iterator[None]:
    while True:
        scheduler.step()
        yield


# Where Swell does not look, into generators: a scheduler and a counter in globals would go on in all workers.
scheduler_steps, numbers = stepping(scheduler), itertools.count()
del scheduler
for epoch in run.epochs():
    for a, b in run.batches():
        if mistake == "counter":
            for group in optimizer.param_groups:
                group["lr"] = 0.05 * 0.98 ** next(numbers)
        if mistake == "momentum":
            optimizer.param_groups[0]["momentum"] = 0.9 - 0.1 * run.rank
        optimizer.zero_grad()
        second.zero_grad()
        loss = functional.mse_loss(model(a), b)
        parts = list(model[2].parameters()) if is_second else []
        own = torch.autograd.grad(loss, parts, retain_graph=True) if parts else ()
        mean = run.backward(loss)
        with torch.no_grad():
            for parameter, gradient in zip(parts, own, strict=True):
                parameter.sub_(gradient, alpha=0.01)
        run.step()
        if is_mended and run.has_stepped:
            second.step()
            second_plateau.step(mean)
            optimizer.param_groups[0]["weight_decay"] = 0.001 * 0.9**run.steps
        if mistake in ("scheduler", "known") and (mistake != "known" or run.is_leader):
            next(scheduler_steps)
        if mistake == "plateau":
            plateau.step(float(loss))
    state = optimizer.state_dict()
    held = [*model.parameters(), *(entry["momentum_buffer"] for entry in state["state"].values())]
    content = b"".join(tensor.detach().numpy().tobytes() for tensor in held)
    found = hashlib.sha256(content).hexdigest()
    with (Path(folder) / f"epoch-{epoch}.{run.rank}").open("w") as file:
        file.write(found)

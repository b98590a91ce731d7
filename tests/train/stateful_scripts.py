"""Training scripts that count something of their own: by name, the loop that each has.

More of these, in the idioms of the wild, are in `tests/scripts`.
"""

from __future__ import annotations

from pathlib import Path

HEAD = """
import copy
import json
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from swell import train

torch.set_default_dtype(torch.float64)
torch.manual_seed(7)
x = torch.randn(45, 5)
y = torch.sin(x.sum(1, keepdim=True))
model = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
loader = DataLoader(TensorDataset(x, y), batch_size=6, shuffle=True)


def fit_batch(run, a, b, factor=1.0):
    optimizer.zero_grad()
    loss = factor * F.mse_loss(model(a), b)
    mean = run.backward(loss)
    run.step()
    return mean


def set_rate(number):
    for group in optimizer.param_groups:
        group["lr"] = 0.02 / (1 + number)

"""

TAIL = """
if run.is_leader:
    weights = [number for part in model.parameters() for number in part.detach().flatten().tolist()]
    with open(sys.argv[1], "w") as file:
        json.dump({"steps": run.steps, "weights": weights}, file)
"""

#: State that is given, or is taken over.
KEPT = {
    "labels that are set anew after epochs": """
labels = y.clone()
loader = DataLoader(TensorDataset(x, labels), batch_size=6, shuffle=True)
run = train.elastic(model, optimizer, loader, epochs=5)
for epoch in run.epochs():
    for a, b in run.batches():
        fit_batch(run, a, b)
    with torch.no_grad():
        labels[::3] = model(x[::3])
""",
    "a generator that is drawn from before each epoch": """
run = train.elastic(model, optimizer, loader, epochs=5)
numbers = run.state.setdefault("numbers", torch.Generator().manual_seed(9))
for epoch in run.epochs():
    factor = 1.0 + float(torch.rand((), generator=numbers))
    for a, b in run.batches():
        fit_batch(run, a, b, factor)
""",
    "a local of the function around": """
def fit():
    run = train.elastic(model, optimizer, loader, epochs=5)
    count, average = 0, None

    def train_epoch():
        nonlocal count, average
        for a, b in run.batches():
            set_rate(count)
            count += 1
            fit_batch(run, a, b, 1.0 if average is None else float(average))
            if run.has_stepped:
                with torch.no_grad():
                    now = model[0].weight.detach().abs().mean()
                average = now if average is None else 0.9 * average + 0.1 * now

    for epoch in run.epochs():
        train_epoch()
    return run

run = fit()
""",
    "named tuples": """
from typing import NamedTuple

class Place(NamedTuple):
    count: int = 0
    rates: tuple[float, ...] = ()

def fit():
    class Own(NamedTuple):
        count: int = 0

    run = train.elastic(model, optimizer, loader, epochs=5)
    here, later = Own(), None
    for epoch in run.epochs():
        for a, b in run.batches():
            later = Place() if later is None else later
            set_rate(here.count + later.count)
            here = here._replace(count=here.count + 1)
            later = Place(later.count + 1, (*later.rates, 1.0))
            fit_batch(run, a, b)
    return run

run = fit()
""",
    "objects of the script's classes, and a container that is held in two places": """
class Meter:
    def __init__(self):
        self.total, self.count = 0.0, 0
    def add(self, value):
        self.total, self.count = self.total + value, self.count + 1

class Told:
    num_epochs = 0
    def __init__(self):
        self.meters, self.records, self.best = [Meter(), Meter()], [], None

def fit():
    run = train.elastic(model, optimizer, loader, epochs=5)
    told = Told()
    records = told.records
    for epoch in run.epochs():
        for a, b in run.batches():
            set_rate(len(records) + sum(meter.total for meter in told.meters) + Told.num_epochs)
            told.meters[epoch % 2].add(float(fit_batch(run, a, b)))
        with torch.no_grad():
            loss = float(F.mse_loss(model(x), y))
        told.records.append({"loss": loss, "weights": copy.deepcopy(model.state_dict())})
        Told.num_epochs += 1
        if told.best is None or loss > told.best["loss"]:
            told.best = records[-1]
    model.load_state_dict(told.best["weights"])
    return run

run = fit()
""",
    "what the head of an epoch reads and sets, in a buffer, too": """
model.register_buffer("factor", torch.ones(()))
mean = last = torch.zeros(())
seen = {"value": 0.0}
run = train.elastic(model, optimizer, loader, epochs=5)
for epoch in run.epochs():
    model.factor.mul_(0.9)
    seen["value"] = float(mean)
    for a, b in run.batches():
        set_rate(seen["value"])
        mean = fit_batch(run, a, b, float(model.factor) + float(last))
""",
    "containers of named tuples, of members of an enumeration, and of paths": """
from collections import Counter, deque
from enum import Enum
from pathlib import Path
from typing import NamedTuple

class Phase(Enum):
    MAIN = 2

class Seen(NamedTuple):
    loss: float
    phase: Phase

counts, seen, paths = Counter(), deque(maxlen=3), {}
run = train.elastic(model, optimizer, loader, epochs=5)
for epoch in run.epochs():
    for a, b in run.batches():
        set_rate(len(counts) + sum(one.loss * one.phase.value for one in seen) + len(paths))
        counts[epoch] += 1
        seen.append(Seen(float(fit_batch(run, a, b)), Phase.MAIN))
        paths[frozenset({run.steps % 7})] = Path(str(run.steps))
""",
    "what is drawn between elastic and the loop": """
run = train.elastic(model, optimizer, loader, epochs=5)
noise = torch.rand(9)
for epoch in run.epochs():
    for a, b in run.batches():
        fit_batch(run, a, b, float(noise.mean()))
""",
    "namespaces": """
import argparse
from types import SimpleNamespace

def fit():
    run = train.elastic(model, optimizer, loader, epochs=5)
    space, args = SimpleNamespace(count=0), argparse.Namespace(count=0)
    for epoch in run.epochs():
        for a, b in run.batches():
            space.count, args.count = space.count + 1, args.count + 1
            set_rate(space.count + 2 * args.count)
            fit_batch(run, a, b)
    return run

run = fit()
""",
}

#: What is not saved: the line that sets it holds this text.
LOST = {
    "enumerate": (
        "enumerate(run.batches())",
        """
run = train.elastic(model, optimizer, loader, epochs=5)
for epoch in run.epochs():
    for i, (a, b) in enumerate(run.batches()):
        set_rate(epoch + i)
        fit_batch(run, a, b)
""",
    ),
    "a generator": (
        "run.batches()",
        """
def counter():
    count = 0
    while True:
        count += 1
        yield count

following = counter()
run = train.elastic(model, optimizer, loader, epochs=5)
for epoch in run.epochs():
    for a, b in run.batches():
        set_rate(next(following))
        fit_batch(run, a, b)
""",
    ),
    "a closure": (
        "run.batches()",
        """
def counter():
    count = 0
    def following():
        nonlocal count
        count += 1
        return count
    return following

following = counter()
run = train.elastic(model, optimizer, loader, epochs=5)
for epoch in run.epochs():
    for a, b in run.batches():
        set_rate(following())
        fit_batch(run, a, b)
""",
    ),
    "a gradient that is not cleared": (
        "run.batches()",
        """
run = train.elastic(model, optimizer, loader, epochs=5)
for epoch in run.epochs():
    for a, b in run.batches():
        if run.steps % 2 == 0:
            optimizer.zero_grad()
        loss = F.mse_loss(model(a), b)
        run.backward(loss)
        run.step()
""",
    ),
    "a file that is read back": (
        "run.batches()",
        """
log = open(sys.argv[1] + ".log", "a+")
run = train.elastic(model, optimizer, loader, epochs=5)
for epoch in run.epochs():
    for a, b in run.batches():
        log.seek(0)
        set_rate(len(log.readlines()))
        fit_batch(run, a, b)
        print(epoch, file=log, flush=True)
""",
    ),
}

#: Nothing to find.
RIGHT = {
    "a stream that goes on from where it is": """
class Rows(torch.utils.data.IterableDataset):
    place = 0

    def __len__(self):
        return len(x)

    def __iter__(self):
        while self.place < len(x):
            self.place += 1
            yield x[self.place - 1], y[self.place - 1]
        self.place = 0

    def state_dict(self):
        return {"place": self.place}

    def load_state_dict(self, state):
        self.place = state["place"]

run = train.elastic(model, optimizer, DataLoader(Rows(), batch_size=6), epochs=5)
for epoch in run.epochs():
    for a, b in run.batches():
        fit_batch(run, a, b)
""",
    "times": """
run = train.elastic(model, optimizer, loader, epochs=5)
begun, num = time.perf_counter(), 0
for epoch in run.epochs():
    for a, b in run.batches():
        fit_batch(run, a, b)
        num += len(a)
        print(num / (time.perf_counter() - begun))
        begun = time.perf_counter()
""",
}


def write_script(folder: Path, body: str) -> Path:
    path = folder / "script.py"
    path.write_text(HEAD + body + TAIL)
    return path

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
    "a generator of the script's own that is drawn from before each epoch": """
numbers = torch.Generator().manual_seed(9)
run = train.elastic(model, optimizer, loader, epochs=5)
for epoch in run.epochs():
    factor = 1.0 + float(torch.rand((), generator=numbers))
    for a, b in run.batches():
        fit_batch(run, a, b, factor)
""",
    "rate by an attribute of the model": """
model.temperature = 1.0
run = train.elastic(model, optimizer, loader, epochs=5)
for epoch in run.epochs():
    for a, b in run.batches():
        fit_batch(run, a, b, model.temperature)
        model.temperature *= 0.9
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
    "a closure that keeps the best weights, in a local and behind a decorator": """
def keeper():
    most, bad, weights = 0.0, 0, None
    @torch.no_grad()
    def keep(value):
        nonlocal most, bad, weights
        if value > most:
            most, bad, weights = value, 0, copy.deepcopy(model.state_dict())
        else:
            bad += 1
        return bad, weights
    return keep

def fit():
    run = train.elastic(model, optimizer, loader, epochs=5)
    keep, last = keeper(), 0.0

    def settled(bad):
        return bad + epoch + 0.1 * last

    for epoch in run.epochs():
        for a, b in run.batches():
            fit_batch(run, a, b)
        with torch.no_grad():
            last = float(F.mse_loss(model(x), y))
        bad, weights = keep(last)
        set_rate(settled(bad))
    model.load_state_dict(weights)
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
    "objects that are made in the loop, one of them held in two places": """
from dataclasses import dataclass

class Meter:
    def __init__(self):
        self.total, self.count = 0.0, 0
    def add(self, value):
        self.total, self.count = self.total + value, self.count + 1

@dataclass(frozen=True)
class Record:
    loss: float
    weights: dict

class Told:
    def __init__(self):
        self.meters, self.records, self.best = {}, [], None

def fit():
    run = train.elastic(model, optimizer, loader, epochs=5)
    told = Told()
    for epoch in run.epochs():
        for a, b in run.batches():
            set_rate(len(told.records) + sum(meter.total for meter in told.meters.values()))
            told.meters.setdefault(f"epoch {epoch}", Meter()).add(float(fit_batch(run, a, b)))
        with torch.no_grad():
            loss = float(F.mse_loss(model(x), y))
        told.records.append(Record(loss, copy.deepcopy(model.state_dict())))
        if told.best is None or loss > told.best.loss:
            told.best = told.records[-1]
    model.load_state_dict(told.best.weights)
    return run

run = fit()
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
    "what functions and small objects keep": """
import argparse
import functools
from types import SimpleNamespace

class Counter:
    __slots__ = ("count",)
    def __init__(self):
        self.count = 0
    def following(self):
        self.count += 1
        return self.count

def add(kept, by=1):
    kept["count"] += by
    return kept["count"]

def of_default(kept={"count": 0}):
    return add(kept)

def of_attribute():
    of_attribute.count += 1
    return of_attribute.count

def fit():
    run = train.elastic(model, optimizer, loader, epochs=5)
    bound, given, slots = Counter().following, functools.partial(add, {"count": 0}), Counter()
    of_attribute.count = 0
    space, args = SimpleNamespace(count=0), argparse.Namespace(count=0)
    for epoch in run.epochs():
        for a, b in run.batches():
            space.count, args.count = space.count + 1, args.count + 1
            counts = bound(), given(), slots.following(), of_default(), of_attribute(), space.count
            set_rate(sum((place + 1) * count for place, count in enumerate((*counts, args.count))))
            fit_batch(run, a, b)
    return run

run = fit()
""",
    "a loss function that a global holds later": """
run = train.elastic(model, optimizer, loader, epochs=5)
loss_of = nn.MSELoss()
for epoch in run.epochs():
    if epoch == 1:
        loss_of = nn.SmoothL1Loss(beta=0.1)
    for a, b in run.batches():
        optimizer.zero_grad()
        loss = loss_of(model(a), b)
        run.backward(loss)
        run.step()
""",
    "a function, a member and an attribute of a module that change at an epoch": """
from enum import Enum

class Phase(Enum):
    WARM_UP = 1
    MAIN = 2

class Scaled(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor
        self.inner = nn.L1Loss()
    def forward(self, a, b):
        return self.factor * self.inner(a, b)

def fit():
    run = train.elastic(model, optimizer, loader, epochs=5)
    phase, distance, penalty = Phase.WARM_UP, F.mse_loss, Scaled(0.0)
    for epoch in run.epochs():
        if epoch == 1:
            phase, distance, penalty.factor = Phase.MAIN, F.smooth_l1_loss, 0.3
        for a, b in run.batches():
            optimizer.zero_grad()
            outputs = model(a)
            loss = distance(outputs, b) * (0.5 if phase is Phase.WARM_UP else 1.0) + penalty(outputs, b)
            run.backward(loss)
            run.step()
    assert Phase(1) is Phase.WARM_UP
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
    "enumerate of epochs": (
        "run.batches()",
        """
run = train.elastic(model, optimizer, loader, epochs=5)
for number, epoch in enumerate(run.epochs()):
    set_rate(number)
    for a, b in run.batches():
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
    "a progress bar": """
class Bar:
    def __init__(self, batches):
        self.batches, self.num, self.text = batches, 0, ""
    def __iter__(self):
        for batch in self.batches:
            yield batch
            self.num += 1
            print(self.num, self.text)

run = train.elastic(model, optimizer, loader, epochs=5)
for epoch in run.epochs():
    bar = Bar(run.batches())
    for a, b in bar:
        bar.text = str(float(fit_batch(run, a, b)))
""",
}


def write_script(folder: Path, body: str) -> Path:
    path = folder / "script.py"
    path.write_text(HEAD + body + TAIL)
    return path

"""Learns labels, and tells each step and each epoch in all its bits: whatever befalls it, they are the same.

    course.py EPOCHS [WORD]

The parameters of `seen` count the samples that have been applied: with plain SGD each visit of sample i
lowers number i by 1 / 64, exactly. A worker holds a lock on each of its devices from its first line on. With
a WORD that begins with `varies` its speed does.
"""

import hashlib
import os
import random
import sys
import time

import held_devices  # type: ignore[import-not-found]  # it lies beside, wherever the script is
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from swell import train

NUM_SAMPLES, BATCH, NUM_LABELS = 512, 64, 4
held_devices.hold()
torch.manual_seed(5)
torch.set_default_dtype(torch.float64)
net = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.2), nn.ReLU(), nn.Linear(16, NUM_LABELS))
seen = nn.Embedding(NUM_SAMPLES, 1)
model = nn.ModuleDict({"net": net, "seen": seen})
nn.init.zeros_(seen.weight)
optimizer = torch.optim.SGD(
    [
        {"params": net.parameters(), "lr": 0.05, "momentum": 0.9},
        {"params": seen.parameters(), "lr": 1.0, "momentum": 0.0},
    ],
    lr=0.05,
)
places = torch.arange(NUM_SAMPLES)
data = TensorDataset(places, torch.randn(NUM_SAMPLES, 8), places % NUM_LABELS)


def digest() -> str:
    """Of parameters and momenta."""
    found = hashlib.sha256()
    for tensor in model.state_dict().values():
        found.update(tensor.numpy().tobytes())
    for number, slots in sorted(optimizer.state_dict()["state"].items()):
        momentum = slots.get("momentum_buffer")
        found.update(str(number).encode() + (b"" if momentum is None else momentum.numpy().tobytes()))
    return found.hexdigest()


def tell(*words: object) -> None:
    """In one piece, so that what a killed worker said is there or not."""
    if run.is_leader:
        os.write(1, (" ".join(map(str, words)) + "\n").encode())


run = train.elastic(
    model,
    optimizer,
    DataLoader(data, batch_size=BATCH, shuffle=True),
    epochs=int(sys.argv[1]),
    deterministic=True,
)
varies = "".join(sys.argv[2:]).startswith("varies")
pauses = random.Random()  # beside that of the module, which the run seeds
for epoch in run.epochs():
    slow_s = pauses.choice((0.0, 0.005, 0.03))
    for place, x, label in run.batches():
        if varies:
            time.sleep(pauses.uniform(0.0, slow_s))
        optimizer.zero_grad()
        loss = functional.cross_entropy(net(x), label) + seen(place).mean()
        mean = run.backward(loss)
        run.step()
        if run.has_stepped:
            tell("step", run.steps, float(mean).hex())
    counted = -BATCH * seen.weight.detach()
    tell("epoch", epoch + 1, digest(), counted.min().item(), counted.max().item())

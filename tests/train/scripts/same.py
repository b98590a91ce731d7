"""Learns pictures with all that draws random numbers, and writes down what it computed and what it got.

Arguments: a folder, the number of epochs, further words: `deterministic`; `norm` (batch norm); `noise`
(dropout, and random numbers in the loop); `load` (load in two processes); `stream` (an iterable dataset);
`place` (one that tells where it is, and goes on from there). Without an agent the file `batches` in the
folder may say the batch of each update. `linear`: the learning rates follow the batch by that rule.
"""

import hashlib
import json
import os
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

from swell import train

NUM_SAMPLES, BATCH = 45, 12

Sample = tuple[torch.Tensor, int, int]  #: picture, label, id


class Pictures(Dataset[Sample]):
    """Each is turned, shifted and blurred at random: one draw from each generator that a process has."""

    def __init__(self) -> None:
        self.x = torch.randn(NUM_SAMPLES, 1, 6, 6)

    def __len__(self) -> int:
        return NUM_SAMPLES

    def __getitem__(self, index: int) -> Sample:
        x = self.x[index]
        if random.random() < 0.5:
            x = x.flip(-1)
        x = x.roll(int(np.random.randint(3)), 1) + 0.1 * torch.randn(x.shape)
        return x, index % 5, index


class Stream(IterableDataset[Sample]):
    """All pictures in random order, cut up among the loader's processes as torch's own examples do."""

    def __init__(self, pictures: Pictures) -> None:
        self.pictures = pictures

    def __iter__(self) -> Iterator[Sample]:
        order = list(range(NUM_SAMPLES))
        random.shuffle(order)
        if (info := get_worker_info()) is not None:
            order = order[info.id :: info.num_workers]
        for index in order:
            yield self.pictures[index]


class Placed(Stream):
    """Tells what is left, and does not look at what is before that."""

    left: list[int] | None = None

    def __iter__(self) -> Iterator[Sample]:
        if self.left is None:
            self.left = list(range(NUM_SAMPLES))
            np.random.shuffle(self.left)
        while self.left:
            yield self.pictures[self.left.pop()]
        self.left = None

    def state_dict(self) -> dict[str, object]:
        assert self.left is not None
        return {"left": list(self.left)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.left = list(state["left"])


def build(words: list[str]) -> nn.Module:
    layers: list[nn.Module] = [nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 5)]
    if "norm" in words:
        layers.insert(1, nn.BatchNorm2d(4))
    if "noise" in words:
        layers.insert(-1, nn.Dropout(0.3))
    return nn.Sequential(*layers)


def write(file: int, **line: object) -> None:
    """In one piece, so that what a killed worker did is there or not."""
    os.write(file, json.dumps(line).encode() + b"\n")


folder, epochs, *words = sys.argv[1:]
torch.manual_seed(7)
pictures, model = Pictures(), build(words)
stream = Placed(pictures) if "place" in words else Stream(pictures) if "stream" in words else None
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
run = train.elastic(
    model,
    optimizer,
    DataLoader(stream or pictures, batch_size=BATCH, shuffle=not stream, num_workers=2 * ("load" in words)),
    epochs=int(epochs),
    scheduler=torch.optim.lr_scheduler.StepLR(optimizer, 20, 0.8),
    deterministic="deterministic" in words,
    rate_rule="linear" if "linear" in words else "none",
)
told = Path(folder) / "batches"
batches = json.loads(told.read_text()) if told.exists() else []


def take_batch() -> None:
    """Have the batch that the next update is to have."""
    if run.updates < len(batches) and batches[run.updates] != run.global_batch:
        run._task.course.batch = batches[run.updates]
        run._host.edition = run.updates  # what was loaded ahead is of another batch


take_batch()
allowed = Path(folder) / "allowed"  # steps to do, if a test wants to have a say in that
diary = os.open(Path(folder) / f"diary-{os.getpid()}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
for _ in run.epochs():
    for x, y, ids in run.batches():
        generation, step = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")), run.updates
        while allowed.exists() and int(allowed.read_text()) <= step:
            time.sleep(0.002)
        num_local = run._out[1].num_local if run._out else 0  # a worker without samples has borrowed one
        own_ids, batch = ids[:num_local].tolist(), run.global_batch
        write(diary, computed=step, generation=generation, ids=own_ids, batch=batch)
        if "noise" in words:
            x = x + 0.1 * torch.randn(x.shape) * random.random() * float(np.random.random_sample())
        optimizer.zero_grad(set_to_none=step % 2 == 0)
        loss = functional.cross_entropy(model(x), y)
        mean = run.backward(loss)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        run.step()
        if run.has_stepped:
            between = [random.random(), float(np.random.random_sample()), float(torch.rand(()))]
            write(diary, finished=step, generation=generation, loss=float(mean), between=between)
            take_batch()

if run.is_leader:
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode() + tensor.numpy().tobytes())
    for slots in optimizer.state_dict()["state"].values():
        digest.update(b"".join(slots[name].numpy().tobytes() for name in sorted(slots)))
    (Path(folder) / "result.json").write_text(json.dumps({"steps": run.steps, "digest": digest.hexdigest()}))

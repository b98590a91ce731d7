"""Notes in files whose names begin as its argument says when its process gets where; others change its ways.

They are in shared memory, of which a trial run has none of its own. `events` gets a line
`PLACE PID TRIAL` at the start, before elastic and for each step. `hold-PLACE`: wait there in a trial run
while the file exists. `exits`: leave the loop so in a trial run, after three steps: `sys` or `os`, and a
status. In the working directory a trial run, and the first real run, make
the folder `out`, which must not be there.
"""

import os
import sys
import time
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from swell import train

is_trial = os.environ.get("SWELL_TRIAL") == "1"


def named(name: str) -> Path:
    return Path(sys.argv[1] + name)


def note(place: str) -> None:
    with open(named("events"), "a") as events:
        events.write(f"{place} {os.getpid()} {int(is_trial)}\n")
    while is_trial and named(f"hold-{place}").exists():
        time.sleep(0.01)


def leave() -> None:
    if is_trial and named("exits").exists():
        kind, status = named("exits").read_text().split()
        if kind == "sys":
            sys.exit(int(status))
        os._exit(int(status))


note("start")
torch.manual_seed(0)
x = torch.randn(512, 8)
model = nn.Linear(8, 1)
loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=64, num_workers=2)
note("built")
run = train.elastic(model, torch.optim.SGD(model.parameters(), lr=0.1), loader, epochs=1)
if is_trial or (run.is_leader and not named("made").exists()):
    if not is_trial:
        named("made").touch()
    os.makedirs("out", exist_ok=False)
num_steps = 0
for _ in run.epochs():
    for a, b in run.batches():
        note("step")
        model.zero_grad()
        loss = nn.functional.mse_loss(model(a), b)
        run.backward(loss)
        run.step()
        num_steps += 1
        if num_steps == 3:
            leave()

"""Learns in float64 which side of a plane a point is on. Keeps a diary, a line a step, in the current folder.

Argument: epochs outside of Swell, default 1; the weights after each of them go to `weights-of-epochs`.

Files in the current folder change its ways (arguments would ask for a trial run of their own):
`dies`: raise after 5 steps; `leaves`: end the loop after 5;
`diverges`: the loss is NaN from step 6 on; `exits`: after step 5 workers of these ranks call os._exit(0), or
all sys.exit(0) if it is empty; `flat`: make one epoch; `enough`: end with an epoch that has not begun yet.
"""

import json
import os
import sys
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from swell import train

torch.set_default_dtype(torch.float64)
torch.manual_seed(0)
x = torch.randn(512, 8)
y = (x @ torch.arange(8.0) > 0).long()
model = nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
loader = DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True)
run = train.elastic(model, optimizer, loader, epochs=int(sys.argv[1]) if sys.argv[1:] else 1)
print("in the loop", flush=True)
Path("token").write_text(os.environ.get("SWELL_TOKEN", ""))
dies, leaves, diverges = (Path(way).exists() for way in ("dies", "leaves", "diverges"))
exits = Path("exits").read_text().split() if Path("exits").exists() else None
with open("diary", "a") as diary:
    for epoch in [0] if Path("flat").exists() else run.epochs():
        if run.is_leader and Path("enough").exists():  # all others end a step of this epoch after this
            Path("last-draft").write_text(str(epoch))
            Path("last-draft").rename("last")
        for a, b in run.batches():
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(a), b)
            if diverges and run.steps >= 5:
                loss = loss * float("nan")
            run.backward(loss)
            before = run.steps
            run.step()
            if run.is_leader and run.steps > before:
                diary.write(f"{run.steps} {os.getpid()} {run.num_workers}\n")
                diary.flush()
            if dies and run.steps == 5:
                raise ArithmeticError("a mistake of the script's own")
            if leaves and run.steps == 5:
                break
            if exits is not None and run.steps == 5:
                if not exits:
                    sys.exit(0)
                if str(run.rank) in exits:
                    os._exit(0)
        with torch.no_grad():
            run.report(accuracy=float((model(x).argmax(1) == y).double().mean()))
        if sys.argv[1:] and run.is_leader:
            with open("weights-of-epochs", "a") as history:
                print(json.dumps(model.weight.tolist()), file=history)
        if leaves or (Path("last").exists() and epoch >= int(Path("last").read_text())):
            break
if run.is_leader:
    Path("weights.json").write_text(json.dumps({"steps": run.steps, "weight": model.weight.tolist()}))
    print("the end", flush=True)

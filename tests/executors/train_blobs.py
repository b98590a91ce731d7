"""Learns noisy points, and writes down which samples each update computed and whether it was finished.

Arguments: a folder, the number of this launch, the seed of the model. The file `allowed` in the folder, if it
is there, tells how many steps may be done.
"""

import json
import os
import sys
import time
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from swell import train

NUM_SAMPLES, BATCH, EPOCHS = 480, 32, 30

folder, launch, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
made = torch.Generator().manual_seed(1)
x = torch.randn(NUM_SAMPLES, 6, generator=made)
y = (x.sin().sum(1) + 1.5 * torch.randn(NUM_SAMPLES, generator=made) > 0).float()
torch.manual_seed(seed)
model = nn.Sequential(nn.Linear(6, 24), nn.Tanh(), nn.Linear(24, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.4)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS * NUM_SAMPLES // BATCH)
loader = DataLoader(TensorDataset(x, y, torch.arange(NUM_SAMPLES)), batch_size=BATCH, shuffle=True)
run = train.elastic(
    model, optimizer, loader, epochs=EPOCHS, scheduler=scheduler, seed=seed, rate_rule="linear"
)
diary = os.open(folder / f"diary-{os.getpid()}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
allowed = folder / "allowed"


def write(**line: object) -> None:
    """In one piece, so that what a killed worker did is there or not."""
    os.write(diary, json.dumps(line).encode() + b"\n")


for _ in run.epochs():
    for features, labels, ids in run.batches():
        update, group = run.updates, (launch, int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")))
        while allowed.exists() and int(allowed.read_text()) <= run.steps:
            time.sleep(0.005)
        num_local = run._out[1].num_local if run._out else 0  # a worker without samples has borrowed one
        write(computed=update, group=group, ids=ids[:num_local].tolist(), batch=run.global_batch)
        optimizer.zero_grad()
        loss = functional.binary_cross_entropy_with_logits(model(features)[:, 0], labels)
        loss.backward()
        run.step(loss)
        if run.has_stepped:
            write(finished=update, group=group, steps=run.steps, num_workers=run.num_workers)

if run.is_leader:
    with torch.no_grad():
        final = float(functional.binary_cross_entropy_with_logits(model(x)[:, 0], y))
    result = {"steps": run.steps, "samples": run.samples, "loss": final}
    (folder / "result.json").write_text(json.dumps(result))

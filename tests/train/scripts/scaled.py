"""Learns in mixed precision, with infinite gradients of one sample in some steps.

Arguments: file for the result, epochs, and a word: `float16` (with a scaler) or `bfloat16`
(without). It trains on the device that TEST_DEVICE names.
"""

import json
import os
import sys

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from swell import train

OVERFLOWS = (2, 3, 110, 111)  # two epochs: the sample is in one of their two steps
VICTIM = 17  # a sample

DEVICE = torch.device(os.environ.get("TEST_DEVICE", "cpu"))

result, epochs, precision = sys.argv[1:]
torch.manual_seed(7)
x = torch.randn(48, 5)
y = torch.sin(x.sum(1, keepdim=True))
model = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 1)).to(DEVICE)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
scaler = (
    None
    if precision == "bfloat16"
    else torch.amp.GradScaler(DEVICE.type, init_scale=4096.0, growth_interval=20)
)
run = train.elastic(
    model,
    optimizer,
    DataLoader(TensorDataset(x, y, torch.arange(48)), batch_size=24, shuffle=True),
    epochs=int(epochs),
    deterministic=True,
)
scales, losses = {}, {}
for _ in run.epochs():
    for a, b, ids in run.batches():
        step = run.steps
        optimizer.zero_grad()
        with torch.autocast(DEVICE.type, dtype=torch.bfloat16 if scaler is None else torch.float16):
            loss = functional.mse_loss(model(a).float(), b)
        if scaler is not None and step in OVERFLOWS and VICTIM in ids:
            loss.register_hook(lambda gradient: gradient * 1e38)  # its worker sees inf, the others do not
        mean = run.backward(loss, scaler=scaler)
        if scaler is not None:
            scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        run.step()
        if run.has_stepped:
            losses[step] = float(mean)
            scales[step] = 0.0 if scaler is None else scaler.get_scale()

if run.is_leader:
    weights = [value for parameter in model.parameters() for value in parameter.detach().flatten().tolist()]
    with open(result, "w") as file:
        json.dump({"steps": run.steps, "weights": weights, "scales": scales, "losses": losses}, file)

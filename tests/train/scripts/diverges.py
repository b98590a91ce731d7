"""Its loss is no number in some steps. Arguments: the steps, counted from 1, as `6` or `6:9`; what to report.

`spoil` as a further word: the parameters become NaN too, as they do in earnest; `deterministic`.
"""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from swell import train

first, _, last = sys.argv[1].partition(":")
reported = float(sys.argv[2])
spoils = "spoil" in sys.argv[3:]
torch.manual_seed(0)
model = nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
loader = DataLoader(TensorDataset(torch.ones(60, 1)), batch_size=6)
run = train.elastic(model, optimizer, loader, epochs=10, deterministic="deterministic" in sys.argv)
for _epoch in run.epochs():
    for (x,) in run.batches():
        optimizer.zero_grad()
        loss = model(x).square().mean()
        if int(first) <= run.steps + 1 <= int(last or first):
            odd = loss * float("nan")
            loss = odd if spoils else loss + (odd - loss).detach()
        run.backward(loss)
        run.step()
    run.report(accuracy=reported)

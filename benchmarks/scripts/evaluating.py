"""A small job that evaluates for so many seconds (first argument) after each epoch of eight steps.

The second argument, if there is one: seconds that the script takes before it calls `elastic`. The third:
numbers whose gradients are summed in addition.
"""

import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from swell import train

if len(sys.argv) > 2:
    time.sleep(float(sys.argv[2]))
torch.manual_seed(0)
x = torch.randn(512, 8)
y = (x.sum(1) > 0).long()
model = nn.Linear(8, 2)
if len(sys.argv) > 3:
    model.register_parameter("weight_on_links", nn.Parameter(torch.zeros(int(sys.argv[3]))))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True)
run = train.elastic(model, optimizer, loader, epochs=1)
for _ in run.epochs():
    for a, b in run.batches():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(a), b)
        if len(sys.argv) > 3:
            loss = loss + model.weight_on_links.mean()
        run.backward(loss)
        run.step()
    time.sleep(float(sys.argv[1]))
    run.report(accuracy=float((model(x).argmax(1) == y).float().mean()))

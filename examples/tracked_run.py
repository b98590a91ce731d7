"""A loop whose losses a tracker has once each, whatever happens to workers."""

import os
from collections import deque
from functools import cache

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from tracker import Tracker  # one of those below

from swell import train

torch.manual_seed(0)
x = torch.randn(512, 8)
y = (x.sum(1) > 0).long()
model = nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True)
run = train.elastic(model, optimizer, loader, epochs=10)

is_tracked = "SWELL_RUN_ID" in os.environ and "SWELL_TRIAL" not in os.environ  # a trial run is no run
newest = deque(maxlen=1000)  # steps with their losses; a new worker begins with those of the others


@cache  # of a process that comes to be rank 0
def tracker():
    return Tracker(os.environ["SWELL_RUN_ID"], newest[0][0])


for _ in run.epochs():
    for inputs, targets in run.batches():
        optimizer.zero_grad()
        loss = run.backward(nn.functional.cross_entropy(model(inputs), targets))  # of the whole step
        run.step()
        newest.append((run.steps, loss.item()))
        if is_tracked and run.is_leader:
            tracker().log(newest)

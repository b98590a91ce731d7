"""The script makes a process group of its own."""

from tests.scripts.classifier import loader, model, optimizer
from tests.scripts.common import nn, train
from torch import distributed as dist

dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
run = train.elastic(model, optimizer, loader, epochs=16)  # refused: init_process_group
for _ in run.epochs():
    for a, b in run.batches():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(a), b)
        run.backward(loss)
        run.step()

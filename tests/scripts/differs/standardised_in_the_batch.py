"""Inputs are standardised by the mean and deviation of their batch."""

from tests.scripts.classifier import loader, model, optimizer
from tests.scripts.common import nn, train

run = train.elastic(model, optimizer, loader, epochs=16)
for _ in run.epochs():
    for a, b in run.batches():
        a = (a - a.mean(0)) / (a.std(0) + 1e-5)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(a), b)
        run.backward(loss)  # differs: batch-dependent
        run.step()

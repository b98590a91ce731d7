"""Gradients are clamped by hand between the backward pass and the step."""

from tests.scripts.classifier import loader, model, optimizer
from tests.scripts.common import nn, train

run = train.elastic(model, optimizer, loader, epochs=16)
for _ in run.epochs():
    for a, b in run.batches():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(a), b)
        run.backward(loss)
        for p in model.parameters():
            p.grad.clamp_(-0.01, 0.01)
        run.step()

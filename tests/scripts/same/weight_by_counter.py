"""A loss weight that grows with the script's own counter of steps."""

from tests.scripts.classifier import loader, model, optimizer
from tests.scripts.common import nn, train

run = train.elastic(model, optimizer, loader, epochs=16)
num_seen = 0
for _ in run.epochs():
    for a, b in run.batches():
        num_seen += 1
        beta = min(1.0, num_seen / 50)
        out = model(a)
        loss = nn.functional.cross_entropy(out, b) + beta * out.pow(2).mean()
        optimizer.zero_grad()
        run.backward(loss)
        run.step()

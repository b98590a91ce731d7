"""A sum is declared, and a weight is given."""

from tests.scripts.classifier import loader, model, optimizer
from tests.scripts.common import nn, train

run = train.elastic(model, optimizer, loader, epochs=16, loss_reduction="sum")
for _ in run.epochs():
    for a, b in run.batches():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(a), b, reduction="sum")
        run.backward(loss, weight=len(a))  # refused: a sum has no weight
        run.step()

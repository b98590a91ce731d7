"""Both run.step and the optimizer's own step are in the loop."""

from tests.scripts.classifier import loader, model, optimizer
from tests.scripts.common import nn, train

run = train.elastic(model, optimizer, loader, epochs=16)
for _ in run.epochs():
    for a, b in run.batches():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(a), b)
        run.backward(loss)
        optimizer.step()  # refused: run.step() does that
        run.step()

"""Class weights from the third epoch on: a mean over weights only then."""

from tests.scripts.classifier import loader, model, optimizer
from tests.scripts.common import F, torch, train

run = train.elastic(model, optimizer, loader, epochs=16)
weights = torch.tensor([1.0, 4.0, 0.3])
for epoch in run.epochs():
    for a, b in run.batches():
        optimizer.zero_grad()
        loss = F.cross_entropy(model(a), b, weight=weights if epoch >= 2 else None)
        run.backward(loss)  # differs: weighted-mean
        run.step()

"""Class weights in the criterion: a mean over weights."""

from tests.scripts.classifier import loader, model, optimizer
from tests.scripts.common import nn, torch, train

run = train.elastic(model, optimizer, loader, epochs=16)
criterion = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 4.0, 0.3]))
for _ in run.epochs():
    for a, b in run.batches():
        optimizer.zero_grad()
        loss = criterion(model(a), b)
        run.backward(loss)  # differs: weighted-mean
        run.step()

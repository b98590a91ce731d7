"""The loss of each sample is given to the step."""

from tests.scripts.classifier import loader, model, optimizer
from tests.scripts.common import nn, train

run = train.elastic(model, optimizer, loader, epochs=16)
criterion = nn.CrossEntropyLoss(reduction="none")
for _ in run.epochs():
    for a, b in run.batches():
        optimizer.zero_grad()
        losses = criterion(model(a), b)
        run.backward(losses)  # refused: give it the mean, one number

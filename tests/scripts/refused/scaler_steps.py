"""A GradScaler still steps the optimizer."""

from tests.scripts.classifier import loader, model, optimizer
from tests.scripts.common import nn, torch, train

scaler = torch.amp.GradScaler("cpu")
run = train.elastic(model, optimizer, loader, epochs=16)
for _ in run.epochs():
    for a, b in run.batches():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(a), b)
        run.backward(loss, scaler=scaler)
        scaler.step(optimizer)  # refused: put it in its place
        run.step()

"""Noise from a generator of the script's own, which each worker draws from by itself."""

from tests.scripts.classifier import loader, model, optimizer
from tests.scripts.common import nn, torch, train

run = train.elastic(model, optimizer, loader, epochs=16)
noise = torch.Generator().manual_seed(1)
for _ in run.epochs():
    for a, b in run.batches():
        a = a + 0.1 * torch.randn(a.shape, generator=noise)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(a), b)
        run.backward(loss)  # differs: hidden-state
        run.step()

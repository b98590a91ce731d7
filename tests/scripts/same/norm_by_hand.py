"""The norm of the gradient is worked out by hand, and clipped with."""

from tests.scripts.classifier import loader, model, optimizer
from tests.scripts.common import nn, torch, train

run = train.elastic(model, optimizer, loader, epochs=16)
for _ in run.epochs():
    for a, b in run.batches():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(a), b)
        run.backward(loss)
        norm = torch.stack([p.grad.norm() for p in model.parameters()]).norm()
        nn.utils.clip_grads_with_norm_(model.parameters(), 0.1, norm)
        run.step()

"""Gradients are clamped by hand, by hooks of the parameters, to what they exceed only later."""

from tests.scripts.common import F, torch, train
from tests.scripts.regression import loader, model

optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for parameter in model.parameters():
    parameter.register_hook(lambda gradient: gradient.clamp(-8.0, 8.0))
run = train.elastic(model, optimizer, loader, epochs=16)
for epoch in run.epochs():
    for inputs, targets in run.batches():
        optimizer.zero_grad()
        loss = (1 + epoch) * F.mse_loss(model(inputs), targets)
        run.backward(loss)  # differs: batch-dependent
        run.step()

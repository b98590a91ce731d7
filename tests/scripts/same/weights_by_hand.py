"""Weights are decayed and clamped by hand after each step."""

from tests.scripts.common import F, torch, train
from tests.scripts.regression import loader, model

optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

run = train.elastic(model, optimizer, loader, epochs=16)
for _ in run.epochs():
    for inputs, targets in run.batches():
        optimizer.zero_grad()
        loss = F.mse_loss(model(inputs), targets)
        run.backward(loss)
        run.step()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(0.995).clamp_(-1, 1)

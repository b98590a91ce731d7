"""The momentum is multiplied by hand before each step."""

from tests.scripts.common import F, torch, train
from tests.scripts.regression import loader, model

optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)

run = train.elastic(model, optimizer, loader, epochs=16)
for _ in run.epochs():
    for inputs, targets in run.batches():
        for group in optimizer.param_groups:
            group["momentum"] = min(0.95, group["momentum"] * 1.02)
        optimizer.zero_grad()
        loss = F.mse_loss(model(inputs), targets)
        run.backward(loss)
        run.step()
    run.report(momentum=optimizer.param_groups[0]["momentum"])

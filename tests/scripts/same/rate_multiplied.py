"""The learning rate is multiplied by hand after each step, and weights decay by hand."""

from tests.scripts.common import F, torch, train
from tests.scripts.regression import loader, model

optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)

run = train.elastic(model, optimizer, loader, epochs=16)
for _ in run.epochs():
    for inputs, targets in run.batches():
        optimizer.zero_grad()
        loss = F.mse_loss(model(inputs), targets)
        run.backward(loss)
        run.step()
        for group in optimizer.param_groups:
            group["lr"] *= 0.97
    run.report(rate=optimizer.param_groups[0]["lr"])

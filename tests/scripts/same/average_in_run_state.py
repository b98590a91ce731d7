"""An average of the weights, evaluated after each epoch and used by the loss."""

from tests.scripts.common import F, torch, train
from tests.scripts.regression import loader, model, x, y
from torch.optim.swa_utils import AveragedModel

optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
run = train.elastic(model, optimizer, loader, epochs=8)
average = run.state.setdefault("average", AveragedModel(model))
for _ in run.epochs():
    for inputs, targets in run.batches():
        optimizer.zero_grad()
        loss = F.mse_loss(model(inputs), targets)
        loss = loss + 0.1 * F.mse_loss(model(inputs), average(inputs).detach())
        run.backward(loss)
        run.step()
        if run.has_stepped:
            average.update_parameters(model)
    with torch.no_grad():
        run.report(average=F.mse_loss(average(x), y).item())

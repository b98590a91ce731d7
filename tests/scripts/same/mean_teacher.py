"""A teacher that follows the student: its weights are kept by the script alone."""

from copy import deepcopy

from tests.scripts.common import F, torch, train
from tests.scripts.regression import loader, model, x, y

teacher = deepcopy(model)
for part in teacher.parameters():
    part.requires_grad_(False)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)


def update_teacher(decay):
    for own, other in zip(teacher.parameters(), model.parameters(), strict=True):
        own.data.mul_(decay).add_(other.data, alpha=1 - decay)


run = train.elastic(model, optimizer, loader, epochs=8)
for _ in run.epochs():
    for inputs, targets in run.batches():
        optimizer.zero_grad()
        predicted = model(inputs)
        loss = F.mse_loss(predicted, targets) + F.mse_loss(predicted, teacher(inputs))
        run.backward(loss)
        run.step()
        update_teacher(0.95)
    with torch.no_grad():
        run.report(teacher=F.mse_loss(teacher(x), y).item())

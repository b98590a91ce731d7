"""A meter made anew in each epoch, and a frozen dataclass made anew in each step."""

from dataclasses import dataclass, replace

from tests.scripts.common import F, torch, train
from tests.scripts.regression import loader, model


class Meter:
    def __init__(self):
        self.sum, self.count = 0.0, 0

    def update(self, value):
        self.sum, self.count = self.sum + float(value), self.count + 1


@dataclass(frozen=True)
class Progress:
    step: int = 0
    scale: float = 1.0


def fit(progress):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    run = train.elastic(model, optimizer, loader, epochs=16)
    for _ in run.epochs():
        meter = Meter()
        for inputs, targets in run.batches():
            optimizer.zero_grad()
            loss = progress.scale * F.mse_loss(model(inputs), targets)
            mean = run.backward(loss)
            progress = replace(progress, step=progress.step + 1, scale=1 / (1 + 0.1 * progress.step))
            run.step()
            meter.update(mean)
        optimizer.param_groups[0]["lr"] = 0.05 / (1 + meter.sum / meter.count)
        run.report(steps=progress.step, count=meter.count)


fit(Progress())

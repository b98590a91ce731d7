"""A trainer's attributes for patience are set first in the loop, where it has none."""

from tests.scripts.common import F, torch, train
from tests.scripts.regression import loader, model


class Trainer:
    def note(self, value):
        if not hasattr(self, "best"):
            self.best, self.bad = value, 0
        elif value < self.best - 0.05:
            self.best, self.bad = value, 0
        else:
            self.bad += 1


optimizer, trainer = torch.optim.SGD(model.parameters(), lr=0.1), Trainer()
run = train.elastic(model, optimizer, loader, epochs=16)
for _ in run.epochs():
    for inputs, targets in run.batches():
        optimizer.zero_grad()
        loss = F.mse_loss(model(inputs), targets)
        mean = run.backward(loss)
        run.step()
        if run.has_stepped:
            trainer.note(mean.item())
        optimizer.param_groups[0]["lr"] = 0.1 / (1 + getattr(trainer, "bad", 0))
    run.report(bad=trainer.bad)

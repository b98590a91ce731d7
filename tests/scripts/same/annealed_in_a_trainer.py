"""The weight of a penalty grows with the trainer's own count of steps and epochs."""

import sys

from tests.scripts.common import F, torch, train
from tests.scripts.regression import loader, model, x, y


class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
        self.global_step = 0
        self.num_epochs = 0
        self.history = []

    def penalty(self):
        return sum(part.square().sum() for part in self.model.parameters())

    def train_epoch(self, run):
        self.model.train()
        for inputs, targets in run.batches():
            beta = min(1.0, self.global_step / 50) + 0.1 * self.num_epochs
            self.optimizer.zero_grad()
            loss = F.mse_loss(self.model(inputs), targets) + 1e-3 * beta * self.penalty()
            run.backward(loss)
            run.step()
            self.global_step += 1

    def fit(self):
        run = train.elastic(self.model, self.optimizer, loader, epochs=8)
        for _ in run.epochs():
            self.train_epoch(run)
            self.num_epochs += 1
            with torch.no_grad():
                self.history.append(F.mse_loss(self.model(x), y).item())
            run.report(fit=self.history[-1], epochs=self.num_epochs, listed=len(self.history))
        return run


run = Trainer(model).fit()

if run.is_leader:
    torch.save(model.state_dict(), sys.argv[1])

"""Early stopping by the sum of each worker's own losses of an epoch, in a trainer."""

from tests.scripts.common import F, torch, train
from tests.scripts.regression import loader, model

optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


class Trainer:
    def __init__(self):
        self.total, self.least, self.bad = 0.0, 1e9, 0

    def fit(self):
        run = train.elastic(model, optimizer, loader, epochs=16)
        for _ in run.epochs():
            self.total = 0.0
            for inputs, targets in run.batches():
                optimizer.zero_grad()
                loss = F.mse_loss(model(inputs), targets)
                run.backward(loss)
                run.step()
                self.total += loss.item()
            if self.total < self.least - 0.1:
                self.least, self.bad = self.total, 0
            else:
                self.bad += 1
            if self.bad >= 4:
                break  # differs: exit


Trainer().fit()

"""A Trainer class with hooks, which owns the model, the optimizer and the run."""

import sys

from tests.scripts.common import DataLoader, TensorDataset, nn, torch, train


class Trainer:
    def __init__(self, model, optimizer, train_loader, criterion, max_epochs, callbacks=()):
        self.model, self.optimizer, self.criterion = model, optimizer, criterion
        self.callbacks = callbacks
        self.run = train.elastic(model, optimizer, train_loader, epochs=max_epochs)

    def training_step(self, batch):
        inputs, targets = batch
        return self.criterion(self.model(inputs), targets)

    def _run_epoch(self):
        self.model.train()
        for batch in self.run.batches():
            self.optimizer.zero_grad()
            loss = self.training_step(batch)
            self.run.backward(loss)
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 0.5)
            self.run.step()

    def fit(self):
        for epoch in self.run.epochs():
            self._run_epoch()
            for callback in self.callbacks:
                callback(self, epoch)
        return self

    def save(self, path):
        if self.run.is_leader:
            torch.save(self.model.state_dict(), path)


class Evaluate:
    def __init__(self, x, y):
        self.x, self.y = x, y

    @torch.no_grad()
    def __call__(self, trainer, epoch):
        trainer.model.eval()
        trainer.run.report(mae=(trainer.model(self.x) - self.y).abs().mean())


def main():
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(100)
    x = torch.randn(108, 5)
    y = x.cumsum(1)[:, ::2]
    model = nn.Sequential(nn.Linear(5, 10), nn.PReLU(), nn.Linear(10, 3))
    Trainer(
        model,
        torch.optim.Adamax(model.parameters(), lr=5e-3),
        DataLoader(TensorDataset(x[:84], y[:84]), batch_size=12, shuffle=True),
        nn.HuberLoss(),
        max_epochs=12,
        callbacks=[Evaluate(x[84:], y[84:])],
    ).fit().save(sys.argv[1])


if __name__ == "__main__":
    main()

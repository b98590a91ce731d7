"""fit() and loss_batch(opt=None) for training and validation; an iterator wraps the batches."""

import sys

from tests.scripts.common import DataLoader, F, TensorDataset, elastic, nn, np, torch


def preprocess(x, y):
    return x.view(-1, 1, 4, 4), y


class WrappedDataLoader:
    def __init__(self, dl, func):
        self.dl = dl
        self.func = func

    def __len__(self):
        return len(self.dl)

    def __iter__(self):
        for b in self.dl:
            yield self.func(*b)


class Lambda(nn.Module):
    def __init__(self, func):
        super().__init__()
        self.func = func

    def forward(self, x):
        return self.func(x)


def loss_batch(model, loss_func, xb, yb, opt=None, run=None):
    loss = loss_func(model(xb), yb)
    if opt is not None:
        run.backward(loss)
        run.step()
        opt.zero_grad()
    return loss.item(), len(xb)


def fit(epochs, model, loss_func, opt, train_dl, valid_dl):
    run = elastic(model, opt, train_dl, epochs=epochs)
    for _epoch in run.epochs():
        model.train()
        for xb, yb in WrappedDataLoader(run.batches(), preprocess):
            loss_batch(model, loss_func, xb, yb, opt, run)
        model.eval()
        with torch.no_grad():
            losses, nums = zip(
                *[loss_batch(model, loss_func, xb, yb) for xb, yb in WrappedDataLoader(valid_dl, preprocess)]
            )
        val_loss = np.sum(np.multiply(losses, nums)) / np.sum(nums)
        run.report(val_loss=val_loss)
    return run


x, y = torch.rand(96, 16), torch.randint(0, 10, (96,))
model = nn.Sequential(
    nn.Conv2d(1, 4, 3, padding=1),
    nn.ReLU(),
    nn.AdaptiveAvgPool2d(2),
    Lambda(lambda x: x.view(x.size(0), -1)),
    nn.Linear(16, 10),
)
run = fit(
    20,
    model,
    F.cross_entropy,
    torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
    DataLoader(TensorDataset(x[:72], y[:72]), batch_size=12, shuffle=True),
    DataLoader(TensorDataset(x[72:], y[72:]), batch_size=24),
)
if run.is_leader:
    torch.save(model.state_dict(), sys.argv[1])

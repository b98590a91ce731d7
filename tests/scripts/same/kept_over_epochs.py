"""Wide inputs, a shuffled list of 3,000, a history that heads of epochs read, and a loop over loaders."""

import random

from tests.scripts.common import DataLoader, Dataset, F, TensorDataset, nn, torch, train

x = torch.randn(60, 1000)  # a batch has more numbers than a value that is copied, and a part of it fewer
y = x[:, :1]


class Bootstrapped(Dataset):
    order = list(range(3000))

    def __len__(self):
        return 60

    def __getitem__(self, index):
        return x[self.order[index] % 60], y[self.order[index] % 60]


data, model, history = Bootstrapped(), nn.Linear(1000, 1), []
loaders = {"held out": DataLoader(TensorDataset(x, y), batch_size=30), "training": DataLoader(data, 12)}
for name, loader in loaders.items():
    print(name, len(loader))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
run = train.elastic(model, optimizer, loaders["training"], epochs=16)
for epoch in run.epochs():
    random.shuffle(data.order)
    weight = 1.0 if epoch < 2 else min(2.0, history[-1] / history[-2])
    total = 0.0
    for inputs, targets in run.batches():
        scaled = inputs / 2
        optimizer.zero_grad()
        loss = weight * F.mse_loss(model(scaled), targets)
        mean = run.backward(loss)
        run.step()
        total += float(mean)
    history.append(total / 5)
    for name, loader in reversed(loaders.items()):
        print(name, sum(F.mse_loss(model(inputs), targets).item() for inputs, targets in loader))

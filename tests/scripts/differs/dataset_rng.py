"""A dataset that augments with a generator of its own, made in its constructor."""

import random

from tests.scripts.common import DataLoader, Dataset, F, nn, torch, train

x = torch.randn(60, 8)
y = torch.sin(x[:, :1]) + 0.5 * x[:, 1:2]


class Noisy(Dataset):
    def __init__(self):
        self.rng = random.Random(3)

    def __len__(self):
        return len(x)

    def __getitem__(self, index):
        return x[index] * (0.7 + 0.6 * self.rng.random()), y[index]


loader = DataLoader(Noisy(), batch_size=12, shuffle=True, num_workers=0)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

run = train.elastic(model, optimizer, loader, epochs=16)
for _ in run.epochs():
    for inputs, targets in run.batches():
        optimizer.zero_grad()
        loss = F.mse_loss(model(inputs), targets)
        run.backward(loss)  # differs: hidden-state
        run.step()

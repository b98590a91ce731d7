"""A sampler that never ends, for a training that counts steps."""

import random

from tests.scripts.common import DataLoader, Sampler, TensorDataset, nn, torch, train


class Forever(Sampler):
    def __iter__(self):
        while True:
            yield random.randrange(60)


x, y = torch.randn(60, 5), torch.randint(0, 3, (60,))
model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
loader = DataLoader(TensorDataset(x, y), batch_size=12, sampler=Forever())
run = train.elastic(model, optimizer, loader, steps=80)  # refused: have the sampler end
for _ in run.epochs():
    for a, b in run.batches():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(a), b)
        run.backward(loss)
        run.step()

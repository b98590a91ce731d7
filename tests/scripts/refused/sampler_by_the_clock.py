"""A sampler whose order comes from the time of the day."""

import time

from tests.scripts.common import DataLoader, Sampler, TensorDataset, nn, torch, train


class Clock(Sampler):
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        start = time.perf_counter_ns() % self.n
        return iter([(start + i) % self.n for i in range(self.n)])

    def __len__(self):
        return self.n


x, y = torch.randn(60, 5), torch.randint(0, 3, (60,))
model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
loader = DataLoader(TensorDataset(x, y), batch_size=12, sampler=Clock(60))
run = train.elastic(model, optimizer, loader, epochs=16)  # refused: gives another order each time
for _ in run.epochs():
    for a, b in run.batches():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(a), b)
        run.backward(loss)
        run.step()

"""An IterableDataset that reads lines and shuffles them in a buffer with a generator of its own."""

import random

from tests.scripts.common import DataLoader, IterableDataset, nn, torch, train

LINES = [f"{i * 37 % 101},{i * 53 % 97},{i * 11 % 89}" for i in range(1000)]


class CSVStream(IterableDataset):
    def __init__(self, lines, buffer_size=32):
        self.lines, self.buffer_size = lines, buffer_size

    def parse(self, line):
        a, b, c = (float(v) / 100 for v in line.split(","))
        return torch.tensor([a, b]), torch.tensor([c * a])

    def __iter__(self):
        rng, buffer = random.Random(0), []
        for line in self.lines:
            if len(buffer) < self.buffer_size:
                buffer.append(line)
                continue
            i = rng.randrange(len(buffer))
            yield self.parse(buffer[i])
            buffer[i] = line
        rng.shuffle(buffer)
        yield from map(self.parse, buffer)


model = nn.Sequential(nn.Linear(2, 16), nn.Softplus(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), 1e-2)
run = train.elastic(model, optimizer, DataLoader(CSVStream(LINES), batch_size=12), steps=80)
for _ in run.epochs():
    for x, y in run.batches():
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        run.backward(loss)
        run.step()

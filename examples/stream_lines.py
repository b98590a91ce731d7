"""A loop over a stream of raw lines, which `collate_fn` turns into samples."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, IterableDataset

from swell import train


class Lines(IterableDataset):
    """Raw samples, in the same order on every worker."""

    def __iter__(self):
        for number in range(2000):
            yield f"{number % 7} {number % 3} {int(number % 7 > 2 * (number % 3))}"


def collate(lines):
    """The expensive part: it gets only the samples that this worker computes."""
    table = torch.tensor([[float(word) for word in line.split()] for line in lines])
    return table[:, :2], table[:, 2].long()


loader = DataLoader(Lines(), batch_size=64, num_workers=1, collate_fn=collate)
model = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
run = train.elastic(model, optimizer, loader, epochs=5)
for epoch in run.epochs():
    for x, y in run.batches():
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(x), y)
        mean = run.backward(loss)
        run.step()
    if run.is_leader:
        print(f"epoch {epoch}, step {run.steps}: loss {float(mean):.3f}")

"""Two streams one after the other, neither of which tells its length."""

from tests.scripts.common import DataLoader, IterableDataset, nn, torch, train
from torch.utils.data import ChainDataset


class Numbers(IterableDataset):
    def __init__(self, first, last):
        self.first, self.last = first, last

    def __iter__(self):
        for number in torch.randperm(self.last - self.first) + self.first:
            yield torch.tensor([number / 50, number % 7 / 7])


torch.manual_seed(0)
model = nn.Linear(2, 2)
optimizer = torch.optim.Rprop(model.parameters(), 1e-2)
stream = ChainDataset([Numbers(0, 33), Numbers(33, 77)])
run = train.elastic(model, optimizer, DataLoader(stream, 12, num_workers=1), steps=80)
for _ in run.epochs():
    for x in run.batches():
        optimizer.zero_grad()
        loss = (model(x) - x.flip(1)).square().mean()
        run.backward(loss)
        run.step()

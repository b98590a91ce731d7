"""A dataset that makes its own batches, and a loader with batch_size=None."""

from tests.scripts.common import DataLoader, Dataset, nn, torch, train


class Batches(Dataset):
    def __init__(self):
        self.x, self.y = torch.randn(60, 5), torch.randint(0, 3, (60,))

    def __len__(self):
        return 5

    def __getitem__(self, i):
        return self.x[12 * i : 12 * i + 12], self.y[12 * i : 12 * i + 12]


model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
loader = DataLoader(Batches(), batch_size=None)
run = train.elastic(model, optimizer, loader, epochs=16)  # refused: give the loader batch_size=
for _ in run.epochs():
    for a, b in run.batches():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(a), b)
        run.backward(loss)
        run.step()

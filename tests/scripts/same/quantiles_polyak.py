"""Quantile regression with ASGD; samples are drawn from a NumPy memmap."""

import tempfile

from tests.scripts.common import DataLoader, Dataset, nn, np, torch, train

QUANTILES = torch.tensor([0.1, 0.5, 0.9])


class Memmapped(Dataset):
    def __init__(self, path, shape):
        self.table = np.memmap(path, dtype=np.float64, mode="r", shape=shape)

    def __len__(self):
        return len(self.table)

    def __getitem__(self, i):
        row = torch.from_numpy(np.array(self.table[i])).double()
        return row[:-1], row[-1:]


def pinball(predicted, actual):
    error = actual - predicted
    return torch.maximum(QUANTILES * error, (QUANTILES - 1) * error).mean()


with tempfile.NamedTemporaryFile(suffix=".bin") as file:
    rng = np.random.default_rng(0)
    table = np.memmap(file.name, dtype=np.float64, mode="w+", shape=(78, 5))
    table[:] = rng.normal(size=(78, 5))
    table.flush()
    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))
    optimizer = torch.optim.ASGD(model.parameters(), lr=0.05, t0=20)
    run = train.elastic(
        model, optimizer, DataLoader(Memmapped(file.name, (78, 5)), 12, shuffle=True), steps=80
    )
    for _ in run.epochs():
        for x, y in run.batches():
            optimizer.zero_grad()
            loss = pinball(model(x), y)
            run.backward(loss)
            run.step()

"""A loader with two processes, a worker_init_fn and augmentation in them."""

import random

from tests.scripts.common import DataLoader, Dataset, nn, np, torch, train


class Noisy(Dataset):
    def __init__(self):
        self.x = np.random.RandomState(0).randn(72, 6)
        self.y = (self.x.sum(1) > 0).astype(np.int64)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        x = self.x[i] + np.random.normal(scale=0.1, size=6)
        if random.random() < 0.3:
            x = -x[::-1].copy()
        return torch.from_numpy(x), self.y[i]


def seed_worker(worker_id):
    worker_seed = torch.initial_seed() % 2**32
    np.random.seed(worker_seed)
    random.seed(worker_seed)


if __name__ == "__main__":
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    loader = DataLoader(
        Noisy(), 12, shuffle=True, num_workers=2, worker_init_fn=seed_worker, persistent_workers=True
    )
    model = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    run = train.elastic(model, optimizer, loader, epochs=14)
    for _ in run.epochs():
        for x, y in run.batches():
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            run.backward(loss)
            run.step()

"""A sampler of the script that gives each of four processes its part."""

from tests.scripts.common import DataLoader, Sampler, TensorDataset, nn, torch, train


class PartSampler(Sampler):
    def __init__(self, n, num_replicas, rank):
        self.n, self.num_replicas, self.rank = n, num_replicas, rank

    def __iter__(self):
        return iter(torch.randperm(self.n).tolist()[self.rank :: self.num_replicas])

    def __len__(self):
        return self.n // self.num_replicas


x, y = torch.randn(60, 5), torch.randint(0, 3, (60,))
model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
dataset = TensorDataset(x, y)
sampler = PartSampler(60, num_replicas=4, rank=0)
loader = DataLoader(dataset, batch_size=12, sampler=sampler)
run = train.elastic(model, optimizer, loader, epochs=16)  # refused: give PartSampler num_replicas=1
for _ in run.epochs():
    for a, b in run.batches():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(a), b)
        run.backward(loss)
        run.step()

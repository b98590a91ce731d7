"""A batch sampler that takes as many samples of each class, drawn with NumPy's global generator."""

from tests.scripts.common import BatchSampler, DataLoader, TensorDataset, nn, np, torch, train


class BalancedBatchSampler(BatchSampler):
    def __init__(self, labels, n_classes, n_samples):
        self.by_class = {c: np.flatnonzero(labels == c) for c in range(n_classes)}
        self.n_samples, self.n_batches = n_samples, len(labels) // (n_classes * n_samples)

    def __iter__(self):
        for _ in range(self.n_batches):
            picks = [np.random.choice(own, self.n_samples, replace=False) for own in self.by_class.values()]
            yield np.concatenate(picks).tolist()

    def __len__(self):
        return self.n_batches


labels = torch.arange(72) % 3
features = torch.randn(72, 4) + labels.unsqueeze(1)
loader = DataLoader(TensorDataset(features, labels), batch_sampler=BalancedBatchSampler(labels.numpy(), 3, 4))
net = nn.Linear(4, 3)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
run = train.elastic(net, optimizer, loader, epochs=14)
for _ in run.epochs():
    for x, y in run.batches():
        loss = nn.functional.cross_entropy(net(x), y)
        optimizer.zero_grad()
        run.backward(loss)
        run.step()

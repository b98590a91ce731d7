"""Each epoch has other indices of a Subset, labels of the model's own, and weights of its sampler."""

from tests.scripts.common import DataLoader, F, Subset, TensorDataset, WeightedRandomSampler, nn, torch, train


def make_loader():
    data = TensorDataset(torch.randn(120, 5), torch.randn(120, 1))
    part = Subset(data, list(range(60)))
    return DataLoader(part, batch_size=12, sampler=WeightedRandomSampler([1.0] * 60, num_samples=60))


loader = make_loader()
model = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
run = train.elastic(model, optimizer, loader, epochs=16)
for epoch in run.epochs():
    for inputs, targets in run.batches():
        optimizer.zero_grad()
        loss = F.mse_loss(model(inputs), targets)
        run.backward(loss)
        run.step()
    start = 60 * (epoch % 2)
    with torch.no_grad():
        x, y = loader.dataset.dataset.tensors
        losses = F.mse_loss(model(x), y, reduction="none").squeeze(1)
        loader.dataset.dataset.tensors = x, 0.9 * y + 0.1 * model(x)
    loader.sampler.weights = losses[start : start + 60]
    loader.dataset.indices = list(range(start, start + 60))

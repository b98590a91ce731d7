"""Rare classes are drawn more often by a WeightedRandomSampler."""

from tests.scripts.common import DataLoader, TensorDataset, WeightedRandomSampler, nn, torch, train

x = torch.randn(90, 6)
y = (torch.rand(90) < 0.15).long()
class_counts = torch.bincount(y)
sample_weights = (1.0 / class_counts)[y]
sampler = WeightedRandomSampler(sample_weights, num_samples=len(sample_weights), replacement=True)
loader = DataLoader(TensorDataset(x, y), batch_size=12, sampler=sampler)
model = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
run = train.elastic(model, optimizer, loader, epochs=10)
for _ in run.epochs():
    for inputs, labels in run.batches():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), labels)
        run.backward(loss)
        run.step()
    with torch.no_grad():
        hits = (model(x).argmax(1) == y)[y == 1].double().mean()
    run.report(recall=hits)

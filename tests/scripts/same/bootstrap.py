"""Sampling with replacement, as many samples an epoch as the script likes."""

from tests.scripts.common import DataLoader, RandomSampler, TensorDataset, torch, train

X = torch.randn(40, 3)
data = TensorDataset(X, X.sin().sum(1))
sampler = RandomSampler(data, replacement=True, num_samples=100)
model = torch.nn.Sequential(torch.nn.Linear(3, 24), torch.nn.SiLU(), torch.nn.Linear(24, 1))
opt = torch.optim.Rprop(model.parameters(), lr=1e-3)
run = train.elastic(model, opt, DataLoader(data, batch_size=12, sampler=sampler), epochs=9)
for _ in run.epochs():
    for x, y in run.batches():
        loss = (model(x).squeeze(-1) - y).pow(2).mean()
        opt.zero_grad()
        run.backward(loss)
        run.step()

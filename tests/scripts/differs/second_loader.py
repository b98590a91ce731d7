"""Unlabelled samples come from a second loader in the loop."""

from tests.scripts.common import DataLoader, TensorDataset, nn, torch, train

x, y, unlabelled = torch.randn(60, 5), torch.randint(0, 3, (60,)), torch.randn(120, 5)
model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
loader = DataLoader(TensorDataset(x, y), batch_size=12, shuffle=True)
second = DataLoader(unlabelled, batch_size=24)
run = train.elastic(model, optimizer, loader, epochs=16)
for _ in run.epochs():
    others = iter(second)
    for a, b in run.batches():
        u = next(others)
        p = model(u).softmax(1)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(a), b) - 0.1 * (p * p.log()).sum(1).mean()
        run.backward(loss)  # differs: hidden-state
        run.step()

"""Batches that were cut before, in a list."""

from tests.scripts.common import nn, torch, train

x, y = torch.randn(60, 5), torch.randint(0, 3, (60,))
model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
batches = [(x[i : i + 12], y[i : i + 12]) for i in range(0, 60, 12)]
run = train.elastic(model, optimizer, batches, epochs=16)  # refused: give it a torch DataLoader
for _ in run.epochs():
    for a, b in run.batches():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(a), b)
        run.backward(loss)
        run.step()

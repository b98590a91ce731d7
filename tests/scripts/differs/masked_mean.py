"""A squared error over the entries of a mask."""

from tests.scripts.common import DataLoader, TensorDataset, nn, torch, train

x, y = torch.randn(60, 5), torch.randn(60, 4)
mask = (torch.rand(60, 4) < 0.6).double()
model = nn.Linear(5, 4)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
loader = DataLoader(TensorDataset(x, y, mask), batch_size=12, shuffle=True)
run = train.elastic(model, optimizer, loader, epochs=16)
for _ in run.epochs():
    for a, b, m in run.batches():
        optimizer.zero_grad()
        error = (model(a) - b) ** 2
        loss = (error * m).sum() / m.sum()
        run.backward(loss)  # differs: weighted-mean
        run.step()

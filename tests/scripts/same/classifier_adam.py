"""A classifier as in most tutorials: Adam, cross-entropy, an evaluation after each epoch."""

from tests.scripts.common import DataLoader, TensorDataset, nn, torch, train

x = torch.randn(60, 8)
y = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
loader = DataLoader(TensorDataset(x, y), batch_size=12, shuffle=True)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
criterion = nn.CrossEntropyLoss()

run = train.elastic(model, optimizer, loader, epochs=8)
for _ in run.epochs():
    model.train()
    for inputs, targets in run.batches():
        optimizer.zero_grad()
        loss = criterion(model(inputs), targets)
        run.backward(loss)
        run.step()
    model.eval()
    with torch.no_grad():
        accuracy = (model(x).argmax(1) == y).double().mean()
    run.report(accuracy=accuracy.item())

"""A summed loss, divided by the batch size of the script."""

from tests.scripts.common import DataLoader, TensorDataset, nn, torch, train

BATCH_SIZE = 12
x, y = torch.randn(60, 5), torch.randint(0, 3, (60,))
model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
loader = DataLoader(TensorDataset(x, y), batch_size=BATCH_SIZE, shuffle=True)
run = train.elastic(model, optimizer, loader, epochs=16)
criterion = nn.CrossEntropyLoss(reduction="sum")
for _ in run.epochs():
    for a, b in run.batches():
        optimizer.zero_grad()
        loss = criterion(model(a), b) / BATCH_SIZE
        run.backward(loss)  # differs: sum-loss
        run.step()

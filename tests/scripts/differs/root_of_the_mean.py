"""The root of the mean squared error of the batch."""

from tests.scripts.common import DataLoader, TensorDataset, nn, torch, train

x = torch.randn(60, 5)
y = x.sum(1, keepdim=True)
model = nn.Linear(5, 1)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
loader = DataLoader(TensorDataset(x, y), batch_size=12, shuffle=True)
run = train.elastic(model, optimizer, loader, epochs=16)
for _ in run.epochs():
    for a, b in run.batches():
        loss = torch.sqrt(nn.functional.mse_loss(model(a), b))
        optimizer.zero_grad()
        run.backward(loss)  # differs: batch-dependent
        run.step()

"""The learning rate falls where a worker's own losses do not: all workers have the same rate by chance."""

from tests.scripts.common import DataLoader, F, TensorDataset, nn, torch, train

x = torch.randn(60, 8)
y = (x[:, :1] > 0).double() + 0.5 * torch.randn(60, 1)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=6)
loader = DataLoader(TensorDataset(x, y), batch_size=12, shuffle=True)
run = train.elastic(model, optimizer, loader, epochs=16, state={"plateau": plateau})
for _ in run.epochs():
    total = 0.0
    for a, b in run.batches():
        optimizer.zero_grad()
        loss = F.mse_loss(model(a), b)
        run.backward(loss)  # differs: own-share
        run.step()
        total += loss.item() * len(a)
    plateau.step(total)

"""A scheduler of the script's own, which the loop steps after each batch."""

from tests.scripts.common import DataLoader, F, TensorDataset, nn, torch, train

x = torch.randn(60, 8)
y = torch.sin(x[:, :1]) + 0.5 * x[:, 1:2]
loader = DataLoader(TensorDataset(x, y), batch_size=12, shuffle=True)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.98)

run = train.elastic(model, optimizer, loader, epochs=16)
for _ in run.epochs():
    for inputs, targets in run.batches():
        optimizer.zero_grad()
        loss = F.mse_loss(model(inputs), targets)
        loss.backward()
        run.step(loss)
        scheduler.step()
    run.report(rate=scheduler.get_last_lr()[0])

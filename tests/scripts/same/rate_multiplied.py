"""The learning rate is multiplied by hand after each step, and weights decay by hand."""

from tests.scripts.common import DataLoader, F, TensorDataset, nn, torch, train

x = torch.randn(60, 8)
y = torch.sin(x[:, :1]) + 0.5 * x[:, 1:2]
loader = DataLoader(TensorDataset(x, y), batch_size=12, shuffle=True)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)

run = train.elastic(model, optimizer, loader, epochs=16)
for _ in run.epochs():
    for inputs, targets in run.batches():
        optimizer.zero_grad()
        loss = F.mse_loss(model(inputs), targets)
        loss.backward()
        run.step(loss)
        for group in optimizer.param_groups:
            group["lr"] *= 0.97
    run.report(rate=optimizer.param_groups[0]["lr"])

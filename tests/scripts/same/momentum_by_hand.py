"""The momentum is multiplied by hand before each step."""

from tests.scripts.common import DataLoader, F, TensorDataset, nn, torch, train

x = torch.randn(60, 8)
y = torch.sin(x[:, :1]) + 0.5 * x[:, 1:2]
loader = DataLoader(TensorDataset(x, y), batch_size=12, shuffle=True)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)

run = train.elastic(model, optimizer, loader, epochs=16)
for _ in run.epochs():
    for inputs, targets in run.batches():
        for group in optimizer.param_groups:
            group["momentum"] = min(0.95, group["momentum"] * 1.02)
        optimizer.zero_grad()
        loss = F.mse_loss(model(inputs), targets)
        loss.backward()
        run.step(loss)
    run.report(momentum=optimizer.param_groups[0]["momentum"])

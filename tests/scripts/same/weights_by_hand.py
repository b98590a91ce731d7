"""Weights are decayed and clamped by hand after each step."""

from tests.scripts.common import DataLoader, F, TensorDataset, nn, torch, train

x = torch.randn(60, 8)
y = torch.sin(x[:, :1]) + 0.5 * x[:, 1:2]
loader = DataLoader(TensorDataset(x, y), batch_size=12, shuffle=True)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

run = train.elastic(model, optimizer, loader, epochs=16)
for _ in run.epochs():
    for inputs, targets in run.batches():
        optimizer.zero_grad()
        loss = F.mse_loss(model(inputs), targets)
        loss.backward()
        run.step(loss)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(0.995).clamp_(-1, 1)

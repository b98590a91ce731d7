"""Batches taken with next(), in a loop that asks for the steps that are done."""

from tests.scripts.common import DataLoader, F, TensorDataset, nn, torch, train

x = torch.randn(60, 6)
loader = DataLoader(TensorDataset(x, torch.sin(x.sum(1, keepdim=True))), batch_size=12, shuffle=True)
model = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-2)
run = train.elastic(model, optimizer, loader, epochs=8)

batches = iter(run.batches())
while run.steps < run.total_steps:
    try:
        xb, yb = next(batches)
    except StopIteration:
        batches = iter(run.batches())
        xb, yb = next(batches)
    loss = F.mse_loss(model(xb), yb)
    optimizer.zero_grad()
    run.backward(loss)
    run.step()
    if run.has_stepped and run.steps % 5 == 0:
        run.report(rate=optimizer.param_groups[0]["lr"])

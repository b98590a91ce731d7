"""The learning rate falls with run.progress, and the best accuracy so far is kept in `run.state`."""

from tests.scripts.common import DataLoader, TensorDataset, nn, torch, train

x = torch.randn(90, 6)
y = (x[:, 0] * x[:, 1] > 0).long()
model = nn.Sequential(nn.Linear(6, 20), nn.GELU(), nn.Linear(20, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
loader = DataLoader(TensorDataset(x[:72], y[:72]), batch_size=12, shuffle=True)
run = train.elastic(model, optimizer, loader, epochs=14)
run.state["best"] = 0.0
for _ in run.epochs():
    for inputs, labels in run.batches():
        optimizer.param_groups[0]["lr"] = 1e-2 * (1 - 0.9 * run.progress)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), labels)
        run.backward(loss)
        run.step()
    with torch.no_grad():
        accuracy = (model(x[72:]).argmax(1) == y[72:]).double().mean().item()
    run.state["best"] = max(run.state["best"], accuracy)
    run.report(accuracy=accuracy, best=run.state["best"])

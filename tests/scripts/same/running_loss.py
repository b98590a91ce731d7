"""The running loss of an epoch, as in most tutorials, summed in `run.state` and divided by the batches."""

from tests.scripts.common import DataLoader, TensorDataset, nn, torch, train

x = torch.randn(60, 5)
loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True).tanh()), batch_size=12, shuffle=True)
net = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
run = train.elastic(net, optimizer, loader, epochs=16)
run.state.setdefault("running_loss", 0.0)
for epoch in run.epochs():
    for inputs, targets in run.batches():
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(net(inputs), targets)
        mean_loss = run.backward(loss)
        run.step()
        if run.has_stepped:
            run.state["running_loss"] += mean_loss.item()
    if run.is_leader:
        print(f"epoch {epoch}: {run.state['running_loss'] / len(loader):.4f}")
    run.report(epoch_loss=run.state["running_loss"] / len(loader))
    run.state["running_loss"] = 0.0

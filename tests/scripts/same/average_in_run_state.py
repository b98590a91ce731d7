"""An average of the weights, evaluated after each epoch and used by the loss."""

from tests.scripts.common import DataLoader, F, TensorDataset, nn, torch, train
from torch.optim.swa_utils import AveragedModel

x = torch.randn(60, 8)
y = torch.sin(x[:, :1]) + 0.5 * x[:, 1:2]
loader = DataLoader(TensorDataset(x, y), batch_size=12, shuffle=True)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
run = train.elastic(model, optimizer, loader, epochs=8)
average = run.state.setdefault("average", AveragedModel(model))
for _ in run.epochs():
    for inputs, targets in run.batches():
        optimizer.zero_grad()
        loss = F.mse_loss(model(inputs), targets)
        loss = loss + 0.1 * F.mse_loss(model(inputs), average(inputs).detach())
        loss.backward()
        run.step(loss)
        if run.has_stepped:
            average.update_parameters(model)
    with torch.no_grad():
        run.report(average=F.mse_loss(average(x), y).item())

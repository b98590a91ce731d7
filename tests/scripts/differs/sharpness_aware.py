"""Sharpness-aware minimisation: weights move along the gradient, and the step is taken from there."""

from tests.scripts.common import DataLoader, F, TensorDataset, nn, torch, train

x, y = torch.randn(60, 5), torch.randint(0, 3, (60,))
model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
loader = DataLoader(TensorDataset(x, y), batch_size=12, shuffle=True)


@torch.no_grad()
def climb(parameters, rho=0.05):
    norm = torch.stack([p.grad.norm() for p in parameters]).norm()
    moved = []
    for parameter in parameters:
        moved.append(rho * parameter.grad / (norm + 1e-12))
        parameter.add_(moved[-1])
    return moved


run = train.elastic(model, optimizer, loader, epochs=16)
for _ in run.epochs():
    for a, b in run.batches():
        optimizer.zero_grad()
        F.cross_entropy(model(a), b).backward()
        moved = climb(list(model.parameters()))
        optimizer.zero_grad()
        loss = F.cross_entropy(model(a), b)
        run.backward(loss)  # differs: batch-dependent
        with torch.no_grad():
            for parameter, distance in zip(model.parameters(), moved):
                parameter.sub_(distance)
        run.step()

"""A range test finds the learning rate before elastic, on a copy of the model."""

import copy

from tests.scripts.common import DataLoader, TensorDataset, nn, torch, train

x = torch.randn(72, 4)
dataset = TensorDataset(x, torch.tanh(x.sum(1, keepdim=True)))
model = nn.Sequential(nn.Linear(4, 16), nn.Sigmoid(), nn.Linear(16, 1))


def find_lr(model, loader, low=1e-4, high=1.0, num=20):
    trial = copy.deepcopy(model)
    opt = torch.optim.SGD(trial.parameters(), lr=low)
    lrs, losses, lr = [], [], low
    for _ in range(num // len(loader) + 1):
        for a, b in loader:
            opt.param_groups[0]["lr"] = lr
            loss = nn.functional.mse_loss(trial(a), b)
            opt.zero_grad()
            loss.backward()
            opt.step()
            lrs.append(lr)
            losses.append(loss.item())
            lr *= (high / low) ** (1 / num)
    return lrs[min(range(len(losses)), key=losses.__getitem__)] / 10


loader = DataLoader(dataset, batch_size=12, shuffle=True)
lr = find_lr(model, loader)
print("learning rate", lr)
optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
run = train.elastic(model, optimizer, loader, epochs=14)
for _ in run.epochs():
    for a, b in run.batches():
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(a), b)
        run.backward(loss)
        run.step()
    run.report(lr=lr)

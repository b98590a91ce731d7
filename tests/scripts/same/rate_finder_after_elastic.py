"""A learning-rate finder on a copy of the model, after elastic and with an optimizer of its own."""

import copy

from tests.scripts.common import DataLoader, F, TensorDataset, nn, torch, train

x = torch.randn(60, 6)
y = x.pow(2).sum(1, keepdim=True).sqrt()
loader = DataLoader(TensorDataset(x, y), batch_size=12, shuffle=True)
model = nn.Sequential(nn.Linear(6, 16), nn.SiLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)


class Finder:
    def __init__(self, model, loader):
        self.model, self.loader = copy.deepcopy(model), loader
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-4)
        self.history = {"rate": [], "loss": []}

    def range_test(self, factor=1.6):
        batches = iter(self.loader)
        for _ in range(len(self.loader)):
            inputs, targets = next(batches)
            self.optimizer.zero_grad()
            loss = F.mse_loss(self.model(inputs), targets)
            loss.backward()
            self.optimizer.step()
            self.history["rate"].append(self.optimizer.param_groups[0]["lr"])
            self.history["loss"].append(loss.item())
            self.optimizer.param_groups[0]["lr"] *= factor
        best = min(range(len(self.history["loss"])), key=self.history["loss"].__getitem__)
        return self.history["rate"][best]


run = train.elastic(model, optimizer, loader, epochs=16)
if "rate" not in run.state:
    run.state["rate"] = Finder(model, loader).range_test()
for group in optimizer.param_groups:
    group["lr"] = 10 * run.state["rate"]
for _ in run.epochs():
    for inputs, targets in run.batches():
        optimizer.zero_grad()
        loss = F.mse_loss(model(inputs), targets)
        run.backward(loss)
        run.step()

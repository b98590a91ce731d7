"""The best model by validation loss is kept in `state`, and it is the best one that is saved."""

import copy
import sys

from tests.scripts.common import DataLoader, TensorDataset, nn, torch, train


class Best:
    def __init__(self, model):
        self.loss, self.weights = float("inf"), copy.deepcopy(model.state_dict())

    def offer(self, loss, model):
        if loss < self.loss:
            self.loss, self.weights = loss, copy.deepcopy(model.state_dict())

    def state_dict(self):
        return {"loss": self.loss, "weights": dict(self.weights)}

    def load_state_dict(self, state):
        self.loss, self.weights = state["loss"], state["weights"]


x, y = torch.randn(90, 10), torch.randn(90, 1)
model = nn.Sequential(nn.Linear(10, 40), nn.ReLU(), nn.Linear(40, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
best = Best(model)
loader = DataLoader(TensorDataset(x[:72], y[:72]), batch_size=12, shuffle=True)
run = train.elastic(model, optimizer, loader, epochs=14, state={"best": best})
for _ in run.epochs():
    for a, b in run.batches():
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(a), b)
        run.backward(loss)
        run.step()
    with torch.no_grad():
        best.offer(nn.functional.mse_loss(model(x[72:]), y[72:]).item(), model)
    run.report(best=best.loss)
if run.is_leader:
    torch.save(best.weights, sys.argv[1])

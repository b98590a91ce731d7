"""Early stopping with patience: an object in `state` counts, and all workers leave both loops together."""

from tests.scripts.common import DataLoader, TensorDataset, nn, torch, train


class EarlyStopping:
    def __init__(self, patience=2, min_delta=0.0):
        self.patience, self.min_delta = patience, min_delta
        self.best, self.counter = float("inf"), 0

    def __call__(self, val_loss):
        if val_loss < self.best - self.min_delta:
            self.best, self.counter = val_loss, 0
        else:
            self.counter += 1
        return self.counter >= self.patience

    def state_dict(self):
        return {"best": self.best, "counter": self.counter}

    def load_state_dict(self, state):
        self.best, self.counter = state["best"], state["counter"]


x, y = torch.randn(100, 12), torch.randn(100, 1)
loader = DataLoader(TensorDataset(x[:60], y[:60]), batch_size=12, shuffle=True)
model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
stopper = EarlyStopping(patience=40)

run = train.elastic(model, optimizer, loader, epochs=100, state={"stopper": stopper})
for _ in run.epochs():
    for xb, yb in run.batches():
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(xb), yb)
        run.backward(loss)
        run.step()
    with torch.no_grad():
        val = nn.functional.mse_loss(model(x[60:]), y[60:]).item()
    should_stop = stopper(val)
    run.report(val=val, patience=stopper.counter, best=stopper.best)
    if should_stop:
        break

"""A Learner with callbacks as in fast.ai: dataclass meters, a schedule of rates, early stopping."""

import math
import sys
from dataclasses import dataclass, field

from tests.scripts.common import DataLoader, F, TensorDataset, nn, torch, train

x = torch.randn(60, 8)
y = (x[:, 0] * x[:, 1] > 0).long()
x_valid = torch.randn(40, 8)
y_valid = (x_valid[:, 0] * x_valid[:, 1] > 0).long()
loader = DataLoader(TensorDataset(x, y), batch_size=12, shuffle=True)


@dataclass
class Meter:
    total: float = 0.0
    count: int = 0
    history: list = field(default_factory=list)

    def update(self, value, num=1):
        self.total += value * num
        self.count += num

    @property
    def mean(self):
        return self.total / max(1, self.count)

    def close(self):
        self.history.append(self.mean)
        self.total, self.count = 0.0, 0


class Callback:
    learner = None

    def before_batch(self): ...
    def after_step(self): ...
    def after_epoch(self): ...


class Schedule(Callback):
    def __init__(self, rate, total):
        self.rate, self.total, self.done = rate, total, 0

    def before_batch(self):
        for group in self.learner.optimizer.param_groups:
            group["lr"] = self.rate * 0.5 * (1 + math.cos(math.pi * self.done / self.total))

    def after_step(self):
        self.done += 1


class Recorder(Callback):
    def __init__(self):
        self.meters = {"loss": Meter(), "valid": Meter(), "accuracy": Meter()}

    def after_step(self):
        self.meters["loss"].update(self.learner.loss.item())

    def after_epoch(self):
        with torch.no_grad():
            out = self.learner.model(x_valid)
        self.meters["valid"].update(F.cross_entropy(out, y_valid).item(), len(y_valid))
        self.meters["accuracy"].update((out.argmax(1) == y_valid).double().mean().item(), len(y_valid))
        self.learner.run.report(**{name: meter.mean for name, meter in self.meters.items()})
        for meter in self.meters.values():
            meter.close()


class EarlyStopping(Callback):
    def __init__(self, patience):
        self.patience, self.best, self.wait = patience, math.inf, 0

    def after_epoch(self):
        valid = self.learner.recorder.meters["valid"].history[-1]
        if valid < self.best - 1e-4:
            self.best, self.wait = valid, 0
        else:
            self.wait += 1
        if self.wait >= self.patience:
            self.learner.stop = True


class Learner:
    def __init__(self, model, loader, callbacks):
        self.model, self.loader, self.stop, self.loss = model, loader, False, None
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=2e-2)
        self.recorder = Recorder()
        self.callbacks = [*callbacks, self.recorder, EarlyStopping(patience=9)]
        for callback in self.callbacks:
            callback.learner = self

    def notify(self, event):
        for callback in self.callbacks:
            getattr(callback, event)()

    def fit(self, epochs):
        self.run = train.elastic(self.model, self.optimizer, self.loader, epochs=epochs)
        for _ in self.run.epochs():
            for xb, yb in self.run.batches():
                self.notify("before_batch")
                self.optimizer.zero_grad()
                loss = F.cross_entropy(self.model(xb), yb)
                mean = self.run.backward(loss)
                self.run.step()
                self.loss = mean
                if self.run.has_stepped:
                    self.notify("after_step")
            self.notify("after_epoch")
            if self.stop:
                break


model = nn.Sequential(nn.Linear(8, 24), nn.GELU(), nn.LayerNorm(24), nn.Linear(24, 2))
learner = Learner(model, loader, [Schedule(2e-2, 80)])
learner.fit(16)

if learner.run.is_leader:
    torch.save(model.state_dict(), sys.argv[1])

"""A scheduler warms up in the first epoch: made before the loop, and kept in run.state."""

import math
import sys
from collections import defaultdict, deque

from tests.scripts.common import DataLoader, TensorDataset, elastic, nn, torch


class SmoothedValue:
    def __init__(self, window_size=20):
        self.deque = deque(maxlen=window_size)
        self.total = 0.0
        self.count = 0

    def update(self, value, n=1):
        self.deque.append(value)
        self.count += n
        self.total += value * n

    @property
    def global_avg(self):
        return self.total / max(self.count, 1)


class MetricLogger:
    def __init__(self):
        self.meters = defaultdict(SmoothedValue)

    def update(self, **kw):
        for k, v in kw.items():
            self.meters[k].update(v.item() if isinstance(v, torch.Tensor) else v)

    def log_every(self, iterable, print_freq, header=""):
        i = 0
        for obj in iterable:
            yield obj
            if i % print_freq == 0:
                print(header, i, {k: m.global_avg for k, m in self.meters.items()})
            i += 1


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.b = nn.Linear(6, 12)
        self.cls = nn.Linear(12, 3)
        self.box = nn.Linear(12, 4)

    def forward(self, x, t=None):
        h = torch.tanh(self.b(x))
        if not self.training:
            return self.cls(h)
        return {
            "loss_classifier": nn.functional.cross_entropy(self.cls(h), t),
            "loss_box_reg": nn.functional.smooth_l1_loss(self.box(h), x[:, :4]),
        }


def train_one_epoch(model, optimizer, run, n, epoch, print_freq):
    model.train()
    metric_logger = MetricLogger()
    header = f"Epoch: [{epoch}]"
    lr_scheduler = run.state["warmup"] if epoch == 0 else None
    for images, targets in metric_logger.log_every(run.batches(), print_freq, header):
        loss_dict = model(images, targets)
        losses = sum(loss for loss in loss_dict.values())
        loss_value = losses.item()
        if not math.isfinite(loss_value):
            print(f"Loss is {loss_value}, stopping training")
            sys.exit(1)
        optimizer.zero_grad()
        run.backward(losses)
        run.step()
        if lr_scheduler is not None:
            lr_scheduler.step()
        metric_logger.update(loss=losses, **loss_dict)
        metric_logger.update(lr=optimizer.param_groups[0]["lr"])
    return metric_logger


x, y = torch.rand(480, 6), torch.randint(0, 3, (480,))
model = Model()
loader = DataLoader(TensorDataset(x, y), batch_size=12, shuffle=True)
optimizer = torch.optim.SGD(
    [p for p in model.parameters() if p.requires_grad], lr=0.1, momentum=0.9, weight_decay=0.0005
)
run = elastic(model, optimizer, loader, epochs=20)
run.state["warmup"] = torch.optim.lr_scheduler.LinearLR(
    optimizer, start_factor=1.0 / 1000, total_iters=min(1000, len(loader) - 1)
)
for epoch in run.epochs():
    train_one_epoch(model, optimizer, run, len(loader), epoch, 10)

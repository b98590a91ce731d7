"""Detection by epochs of a function: warm-up by a scheduler of the first one, lists of targets, meters."""

import math
import sys
import time
from collections import defaultdict, deque

from tests.scripts.common import DataLoader, Dataset, F, nn, torch, train

x = torch.randn(120, 6)


class SmoothedValue:
    def __init__(self, window_size=20, fmt=None):
        self.deque = deque(maxlen=window_size)
        self.total = 0.0
        self.count = 0

    def update(self, value, n=1):
        self.deque.append(value)
        self.count += n
        self.total += value * n

    @property
    def global_avg(self):
        return self.total / self.count


class MetricLogger:
    def __init__(self):
        self.meters = defaultdict(SmoothedValue)

    def update(self, **kwargs):
        for k, v in kwargs.items():
            if isinstance(v, torch.Tensor):
                v = v.item()
            self.meters[k].update(v)

    def log_every(self, iterable, print_freq, header=None):
        i = 0
        iter_time = SmoothedValue()
        end = time.time()
        for obj in iterable:
            yield obj
            iter_time.update(time.time() - end)
            if i % print_freq == 0:
                pass
            i += 1
            end = time.time()


def reduce_dict(d):
    return d


class Boxes(Dataset):
    def __init__(self):
        self.n = torch.randint(1, 4, (120,))
        self.boxes = [torch.rand(int(k), 4) for k in self.n]
        self.labels = [torch.randint(0, 3, (int(k),)) for k in self.n]

    def __len__(self):
        return 120

    def __getitem__(self, i):
        return x[i], {"boxes": self.boxes[i], "labels": self.labels[i], "image_id": i}


def collate_fn(batch):
    return tuple(zip(*batch))


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 16), nn.ReLU())
        self.box, self.cls = nn.Linear(16, 4), nn.Linear(16, 3)

    def forward(self, images, targets):
        h = self.body(torch.stack(list(images)))
        box = torch.stack(
            [F.smooth_l1_loss(self.box(f).expand_as(t["boxes"]), t["boxes"]) for f, t in zip(h, targets)]
        ).mean()
        cls = torch.stack(
            [
                F.cross_entropy(self.cls(f).expand(len(t["labels"]), -1), t["labels"])
                for f, t in zip(h, targets)
            ]
        ).mean()
        return {"loss_box": box, "loss_cls": cls}


def train_one_epoch(model, optimizer, run, epoch, print_freq):
    model.train()
    metric_logger = MetricLogger()
    lr_scheduler = None
    if epoch == 0:
        warmup_factor = 1.0 / 1000
        warmup_iters = min(1000, 10 - 1)
        lr_scheduler = torch.optim.lr_scheduler.LinearLR(
            optimizer, start_factor=warmup_factor, total_iters=warmup_iters
        )
    for images, targets in metric_logger.log_every(run.batches(), print_freq, f"Epoch: [{epoch}]"):
        targets = [
            {k: v.clone() if isinstance(v, torch.Tensor) else v for k, v in t.items()} for t in targets
        ]
        loss_dict = model(images, targets)
        losses = sum(loss for loss in loss_dict.values())
        loss_dict_reduced = reduce_dict(loss_dict)
        loss_value = sum(loss for loss in loss_dict_reduced.values()).item()
        if not math.isfinite(loss_value):
            sys.exit(1)
        optimizer.zero_grad()
        run.backward(losses)
        run.step()
        if lr_scheduler is not None:
            lr_scheduler.step()
        metric_logger.update(loss=loss_value, **loss_dict_reduced)
        metric_logger.update(lr=optimizer.param_groups[0]["lr"])
    return metric_logger


def main():
    global model, run
    model = Detector()
    optimizer = torch.optim.SGD(
        [p for p in model.parameters() if p.requires_grad], lr=0.05, momentum=0.9, weight_decay=5e-4
    )
    lr_scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=3, gamma=0.1)
    loader = DataLoader(Boxes(), batch_size=12, shuffle=True, collate_fn=collate_fn)
    run = train.elastic(model, optimizer, loader, epochs=8)
    for epoch in run.epochs():
        train_one_epoch(model, optimizer, run, epoch, 10)
        lr_scheduler.step()
        run.report(lr=optimizer.param_groups[0]["lr"])


main()

if run.is_leader:
    torch.save(model.state_dict(), sys.argv[1])

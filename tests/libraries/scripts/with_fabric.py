"""A Fabric loop with accumulation, clipping, a schedule, a logger and an evaluation after each epoch."""

import sys
from pathlib import Path

import torch
from lightning.fabric import Fabric
from lightning.fabric.loggers import CSVLogger
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

NUM_EPOCHS, ACCUMULATED = 10, 4
final = Path(sys.argv[1])


class Evaluated:
    """A callback that counts evaluations."""

    def __init__(self):
        self.num = 0

    def on_evaluated(self, error):
        self.num += 1


counted = Evaluated()
logger = CSVLogger(final.parent, "logs", flush_logs_every_n_steps=1)
fabric = Fabric(accelerator="cpu", devices=1, callbacks=[counted], loggers=[logger])
fabric.launch()
fabric.seed_everything(0)
x = torch.randn(96, 6)
y = x.sin().sum(1, keepdim=True)
with fabric.init_module():
    model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0 - step / 100)
model, optimizer = fabric.setup(model, optimizer)
train_loader, eval_loader = fabric.setup_dataloaders(
    DataLoader(TensorDataset(x, y), batch_size=3), DataLoader(TensorDataset(x[:24], y[:24]), batch_size=8)
)
best, history = float("inf"), []
elastic = hasattr(fabric, "epochs")
for epoch in fabric.epochs(NUM_EPOCHS, accumulate=ACCUMULATED) if elastic else range(NUM_EPOCHS):
    model.train()
    for number, (a, b) in enumerate(train_loader):
        is_accumulating = (number + 1) % ACCUMULATED != 0
        with fabric.no_backward_sync(model, enabled=is_accumulating), fabric.autocast():
            loss = nn.functional.mse_loss(model(a), b)
            fabric.backward(loss / ACCUMULATED)
        if not is_accumulating:
            norm = fabric.clip_gradients(model, optimizer, max_norm=0.5)
            optimizer.step()
            optimizer.zero_grad()
            scheduler.step()
    model.eval()
    errors = []
    for a, b in eval_loader:
        with torch.no_grad():
            errors.append((model(a) - b).square().mean())
    error = float(fabric.all_reduce(torch.stack(errors).mean()))
    history.append([epoch, error, float(norm), scheduler.get_last_lr()[0]])
    fabric.log_dict({"error": error, "norm": float(norm)}, step=epoch)
    fabric.call("on_evaluated", error=error)
    if error < best:
        best = error
        fabric.save(final.parent / "best.pt", {"model": model, "optimizer": optimizer, "epoch": epoch})
fabric.barrier()
logger.finalize("success")
saved = fabric.load(final.parent / "best.pt", {"model": model})
if fabric.is_global_zero:
    weights = {name: value.detach() for name, value in model.state_dict().items()}
    facts = {"history": torch.tensor(history), "best": torch.tensor([best, saved["epoch"], counted.num])}
    torch.save({**weights, **facts}, final)

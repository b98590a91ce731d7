"""An Accelerate loop with accumulation, clipping, a schedule and an evaluation after each epoch."""

import sys
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.tracking import GeneralTracker
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

NUM_EPOCHS = 10
final = Path(sys.argv[1])


class Lines(GeneralTracker):
    """Writes a line for each epoch."""

    name, requires_logging_directory, tracker = "lines", False, None

    def __init__(self):
        super().__init__()

    def store_init_configuration(self, values):
        pass

    def log(self, values, step=None):
        with open(final.parent / "lines", "a") as lines:
            lines.write(f"{step}\n")


accelerator = Accelerator(gradient_accumulation_steps=4, cpu=True, log_with=[Lines()])
accelerator.init_trackers("test")
torch.manual_seed(0)
x = torch.randn(96, 6)
y = x.sin().sum(1, keepdim=True)
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0 - step / 100)
train_loader = DataLoader(TensorDataset(x, y), batch_size=3, shuffle="shuffled" in sys.argv)
eval_loader = DataLoader(TensorDataset(x[:24], y[:24]), batch_size=8)
model, optimizer, train_loader, eval_loader, scheduler = accelerator.prepare(
    model, optimizer, train_loader, eval_loader, scheduler
)
history, num_steps = [], 0
epochs = accelerator.epochs(NUM_EPOCHS) if hasattr(accelerator, "epochs") else range(NUM_EPOCHS)
for epoch in epochs:
    model.train()
    for a, b in train_loader:
        with accelerator.accumulate(model):
            loss = nn.functional.mse_loss(model(a), b)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                norm = accelerator.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
        if accelerator.sync_gradients:
            num_steps += 1
            history.append([epoch, num_steps, float(norm), scheduler.get_last_lr()[0]])
    model.eval()
    errors = []
    for a, b in eval_loader:
        with torch.no_grad():
            errors.append(accelerator.gather_for_metrics((model(a) - b).square()))
    history.append([epoch, num_steps, float(torch.cat(errors).mean()), -1.0])
    accelerator.log({"error": history[-1][2]}, step=epoch)
    accelerator.save_state(str(final.parent / f"epoch-{epoch}"))
accelerator.wait_for_everyone()
if accelerator.is_main_process:
    weights = {name: value.detach() for name, value in accelerator.unwrap_model(model).state_dict().items()}
    accelerator.save({**weights, "history": torch.tensor(history)}, final)

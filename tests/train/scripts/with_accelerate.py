"""Accelerate's loop. Arguments: epochs at which it ends, batch of a worker."""

import os
import sys

import torch
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

NUM_EPOCHS, LOCAL_BATCH = map(int, sys.argv[1:])


class Progress:
    epoch = steps = 0

    def state_dict(self):
        return {"epoch": self.epoch, "steps": self.steps}

    def load_state_dict(self, state):
        self.epoch, self.steps = state["epoch"], state["steps"]


accelerator = Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(use_seedable_sampler=True))
torch.manual_seed(0)
x = torch.randn(43, 4, dtype=torch.float64)
y = x.sum(1, keepdim=True)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)).double()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 5)
loader = DataLoader(TensorDataset(x, y), batch_size=LOCAL_BATCH, shuffle=True, drop_last=True)
test_loader = DataLoader(TensorDataset(y[:25]), batch_size=10)
model, optimizer, loader, test_loader = accelerator.prepare(model, optimizer, loader, test_loader)
accelerator.register_for_checkpointing(scheduler)
progress = Progress()
accelerator.register_for_checkpointing(progress)
if os.path.isdir("saved"):
    accelerator.load_state("saved")
while progress.epoch < NUM_EPOCHS:
    loader.set_epoch(progress.epoch)
    for inputs, targets in loader:
        loss = nn.functional.mse_loss(model(inputs), targets)
        accelerator.backward(loss)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        progress.steps += 1
    with torch.no_grad():
        seen = torch.cat([accelerator.gather_for_metrics(values) for (values,) in test_loader])
    assert torch.equal(seen, y[:25]), "each sample once, in its order"
    progress.epoch += 1
accelerator.save_state("saved")
if accelerator.is_main_process:
    parameters = torch.cat([p.detach().flatten() for p in accelerator.unwrap_model(model).parameters()])
    torch.save({"steps": torch.tensor(progress.steps), "parameters": parameters}, "final.pt")
accelerator.end_training()

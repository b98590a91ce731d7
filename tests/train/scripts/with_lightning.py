"""Lightning's Trainer. Arguments: epochs at which it ends, batch of a worker."""

import os
import sys

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

NUM_EPOCHS, LOCAL_BATCH = map(int, sys.argv[1:])


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)).double()

    def training_step(self, batch, index):
        inputs, targets = batch
        return nn.functional.mse_loss(self.layers(inputs), targets)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-2)


torch.manual_seed(0)
x = torch.randn(43, 4, dtype=torch.float64)
model = Model()
trainer = lightning.Trainer(
    accelerator="cpu",
    strategy="ddp",
    devices=int(os.environ["LOCAL_WORLD_SIZE"]),
    max_epochs=NUM_EPOCHS,
    callbacks=[ModelCheckpoint("saved", save_last=True)],
    enable_progress_bar=False,
    enable_model_summary=False,
    logger=False,
)
loader = DataLoader(
    TensorDataset(x, x.sum(1, keepdim=True)), batch_size=LOCAL_BATCH, shuffle=True, drop_last=True
)
trainer.fit(model, loader, ckpt_path="last")
if trainer.is_global_zero:
    parameters = torch.cat([p.detach().flatten() for p in model.parameters()])
    torch.save({"steps": torch.tensor(trainer.global_step), "parameters": parameters}, "final.pt")

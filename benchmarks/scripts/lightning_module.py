"""The job of `evaluating.py` as a LightningModule: seconds of evaluation, and epochs."""

import sys
import time

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

EVALUATION_S, EPOCHS = float(sys.argv[1]), int(sys.argv[2])


class Classifier(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 2)

    def training_step(self, batch, index):
        x, y = batch
        return nn.functional.cross_entropy(self.layer(x), y)

    def on_train_epoch_end(self):
        time.sleep(EVALUATION_S)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


torch.manual_seed(0)
x = torch.randn(512, 8)
loader = DataLoader(TensorDataset(x, (x.sum(1) > 0).long()), batch_size=64, shuffle=True)
trainer = lightning.Trainer(
    accelerator="auto",
    devices=1,
    max_epochs=EPOCHS,
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(Classifier(), loader)

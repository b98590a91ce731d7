"""A DataModule, with batches that are accumulated, gradients that are clipped, and validation amid epochs."""

import os
import sys

import lightning as L  # noqa: N812
import torch
import torch.nn.functional as F  # noqa: N812
from lightning.pytorch.callbacks import Callback, LearningRateMonitor, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Points(L.LightningDataModule):
    def setup(self, stage):
        generator = torch.Generator().manual_seed(0)
        x = torch.rand(192, 5, generator=generator) * 4
        y = x.sin().sum(1, keepdim=True) * 5
        self.train, self.val = TensorDataset(x[:144], y[:144]), TensorDataset(x[144:], y[144:])

    def train_dataloader(self):
        return DataLoader(self.train, batch_size=3)

    def val_dataloader(self):
        return DataLoader(self.val, batch_size=20)


class Regression(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(5, 40), nn.ReLU(), nn.Linear(40, 1))

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = F.mse_loss(self.net(x), y)
        self.log("loss", loss, on_step=False, on_epoch=True)
        self.log("seen", float(len(x)), on_step=False, on_epoch=True, reduce_fx="sum")
        return {"loss": loss}

    def validation_step(self, batch, batch_idx):
        x, y = batch
        self.log("val_loss", F.mse_loss(self.net(x), y))

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9)
        total = self.trainer.estimated_stepping_batches
        scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=total)
        return [optimizer], [{"scheduler": scheduler, "interval": "step"}]


class History(Callback):
    """Keeps what it has seen, and has no state_dict."""

    def __init__(self):
        self.losses, self.steps = [], 0

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        self.steps += 1

    def on_validation_end(self, trainer, module):
        if not trainer.sanity_checking:
            self.losses.append(float(trainer.callback_metrics["val_loss"]))


def main(path):
    os.chdir(os.path.dirname(path))
    L.seed_everything(2)
    model, history = Regression(), History()
    saved = ModelCheckpoint(monitor="val_loss", save_top_k=-1)
    trainer = L.Trainer(
        max_epochs=6,
        accumulate_grad_batches=4,
        gradient_clip_val=1.0,
        gradient_clip_algorithm="norm",
        val_check_interval=0.5,
        callbacks=[saved, history, LearningRateMonitor("step")],
        logger=CSVLogger("logs"),
        log_every_n_steps=1,
        enable_progress_bar=False,
        enable_model_summary=False,
        accelerator="cpu",
    )
    trainer.fit(model, datamodule=Points())
    if trainer.is_global_zero:
        learnt = model.state_dict() | {"history": torch.tensor(history.losses)}
        learnt["global_step"] = torch.tensor(trainer.global_step)
        learnt |= {name: torch.tensor(float(value)) for name, value in trainer.callback_metrics.items()}
        names = "\n".join(sorted(os.listdir(saved.dirpath)))
        learnt["files"] = torch.tensor([*names.encode()])
        torch.save(learnt, path)


main(sys.argv[1])

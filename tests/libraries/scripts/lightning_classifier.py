"""A classifier with validation, the best checkpoint, and an early end."""

import os
import sys

import lightning.pytorch as pl
import torch
import torch.nn.functional as F  # noqa: N812
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Classifier(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Sequential(nn.Linear(20, 32), nn.Tanh(), nn.Linear(32, 4))

    def training_step(self, batch, batch_idx):
        x, y = batch
        logits = self.net(x)
        loss = F.cross_entropy(logits, y)
        self.log("train_loss", loss, on_step=True, on_epoch=True)
        self.log("train_acc", (logits.argmax(1) == y).double().mean(), on_step=False, on_epoch=True)
        return loss

    def validation_step(self, batch, batch_idx):
        x, y = batch
        logits = self.net(x)
        self.log("val_loss", F.cross_entropy(logits, y))
        self.log("val_acc", (logits.argmax(1) == y).double().mean())

    def test_step(self, batch, batch_idx):
        self.log("test_loss", F.cross_entropy(self.net(batch[0]), batch[1]))

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=3e-2)
        scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=0)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "monitor": "val_loss"}}


def make_data(num, seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(num, 20, generator=generator)
    y = (x[:, :4] + 0.7 * torch.randn(num, 4, generator=generator)).argmax(1)
    return TensorDataset(x, y)


def main(path, epochs=12):
    os.chdir(os.path.dirname(path))
    pl.seed_everything(3)
    model = Classifier()
    best = ModelCheckpoint(monitor="val_loss", save_last=True, filename="{epoch}-{val_loss:.3f}")
    trainer = pl.Trainer(
        max_epochs=epochs,
        callbacks=[best, EarlyStopping("val_loss", patience=3)],
        logger=CSVLogger("logs"),
        log_every_n_steps=2,
        enable_progress_bar=False,
        accelerator="cpu",
    )
    train, held_out = (
        DataLoader(make_data(120, 0), batch_size=12),
        DataLoader(make_data(50, 1), batch_size=16),
    )
    trainer.fit(model, train, held_out)
    learnt = {name: value.clone() for name, value in model.state_dict().items()}
    numbers = {
        "best_score": float(best.best_model_score),
        "epoch": trainer.current_epoch,
        "global_step": trainer.global_step,
        **{name: float(value) for name, value in trainer.callback_metrics.items()},
    }
    [tested] = trainer.test(model, held_out, ckpt_path="best", verbose=False)
    with open("tested", "a") as file:
        file.write(f"{trainer.global_rank}\n")
    if trainer.is_global_zero:
        learnt |= {name: torch.tensor(value) for name, value in {**numbers, **tested}.items()}
        names = [best.best_model_path, best.last_model_path]
        learnt |= {
            f"path{place}": torch.tensor([*name.rpartition("/")[2].encode()])
            for place, name in enumerate(names)
        }
        torch.save(learnt, path)


main(sys.argv[1])

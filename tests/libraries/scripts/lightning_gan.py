"""A GAN that steps two optimizers by itself, as in Lightning's own documentation."""

import os
import sys

import pytorch_lightning as pl
import torch
import torch.nn.functional as F  # noqa: N812
from pytorch_lightning.callbacks import ModelCheckpoint
from pytorch_lightning.loggers import CSVLogger
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class GAN(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.generator = nn.Sequential(nn.Linear(6, 24), nn.Tanh(), nn.Linear(24, 8))
        self.discriminator = nn.Sequential(nn.Linear(8, 24), nn.LeakyReLU(0.2), nn.Linear(24, 1))

    def training_step(self, batch):
        real, z = batch
        opt_g, opt_d = self.optimizers()
        ones, zeros = torch.ones(len(real), 1), torch.zeros(len(real), 1)

        self.toggle_optimizer(opt_g)
        g_loss = F.binary_cross_entropy_with_logits(self.discriminator(self.generator(z)), ones)
        self.manual_backward(g_loss)
        opt_g.step()
        opt_g.zero_grad()
        self.untoggle_optimizer(opt_g)

        self.toggle_optimizer(opt_d)
        d_real = F.binary_cross_entropy_with_logits(self.discriminator(real), ones)
        d_fake = F.binary_cross_entropy_with_logits(self.discriminator(self.generator(z).detach()), zeros)
        d_loss = (d_real + d_fake) / 2
        self.manual_backward(d_loss)
        opt_d.step()
        opt_d.zero_grad()
        self.untoggle_optimizer(opt_d)
        self.log_dict({"g_loss": g_loss, "d_loss": d_loss}, on_step=True, on_epoch=True, prog_bar=True)

    def on_train_epoch_end(self):
        for scheduler in self.lr_schedulers():
            scheduler.step()

    def validation_step(self, batch, batch_idx):
        real, z = batch
        self.log("gap", (self.generator(z).mean(0) - real.mean(0)).norm())

    def configure_optimizers(self):
        optimizers = [
            torch.optim.Adam(each.parameters(), lr=2e-2, betas=(0.5, 0.9))
            for each in (self.generator, self.discriminator)
        ]
        schedulers = [torch.optim.lr_scheduler.ExponentialLR(each, 0.9) for each in optimizers]
        return optimizers, schedulers


def main(path):
    os.chdir(os.path.dirname(path))
    pl.seed_everything(1)
    generator = torch.Generator().manual_seed(0)
    real = torch.randn(100, 8, generator=generator) * 0.3 + torch.arange(8) / 8
    data = TensorDataset(real, torch.randn(100, 6, generator=generator))
    model = GAN()
    saved = ModelCheckpoint(monitor="gap", save_top_k=2, every_n_epochs=1)
    trainer = pl.Trainer(
        max_epochs=9,
        callbacks=[saved],
        logger=CSVLogger("logs"),
        log_every_n_steps=1,
        enable_progress_bar=False,
        accelerator="cpu",
    )
    trainer.fit(model, DataLoader(data, batch_size=12), DataLoader(data, batch_size=100))
    if trainer.is_global_zero:
        learnt = model.state_dict() | {"best": torch.tensor(float(saved.best_model_score))}
        learnt["global_step"] = torch.tensor(trainer.global_step)
        learnt |= {name: torch.tensor(float(value)) for name, value in trainer.callback_metrics.items()}
        torch.save(learnt, path)


main(sys.argv[1])

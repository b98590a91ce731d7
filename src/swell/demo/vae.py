"""A variational auto-encoder learns to draw handwritten digits; reports the held-out negative ELBO.

The loss is the negative evidence lower bound of Kingma and Welling (2014), in nats a picture.
Written for one device. What makes it elastic are the lines with `train` and `run`.
"""

from __future__ import annotations

import argparse

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from swell import train
from swell.demo.digits import digits

NUM_PIXELS = 64
NUM_LATENTS = 8


class Vae(nn.Module):
    """Encoder and decoder of one hidden layer each."""

    def __init__(self, num_hidden: int) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Flatten(), nn.Linear(NUM_PIXELS, num_hidden), nn.ReLU(), nn.Linear(num_hidden, 2 * NUM_LATENTS)
        )
        self.decoder = nn.Sequential(
            nn.Linear(NUM_LATENTS, num_hidden), nn.ReLU(), nn.Linear(num_hidden, NUM_PIXELS)
        )

    def forward(self, images: Tensor) -> Tensor:
        """Negative ELBO, nats a picture, mean over the batch."""
        mean, log_variance = self.encoder(images).chunk(2, dim=1)
        latents = mean + torch.randn_like(mean) * torch.exp(log_variance / 2)
        reconstruction = nn.functional.binary_cross_entropy_with_logits(
            self.decoder(latents), images.flatten(1), reduction="sum"
        )
        divergence = (mean.square() + log_variance.exp() - 1 - log_variance).sum() / 2
        loss: Tensor = (reconstruction + divergence) / len(images)
        return loss


def held_out_loss(model: nn.Module, images: Tensor) -> float:
    """Mean loss of a picture of `images`, in nats, computed without gradients."""
    device = next(model.parameters()).device
    with torch.no_grad():
        return float(model(images.to(device)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--batch", type=int, default=96, help="pictures a step, all workers together")
    parser.add_argument("--lr", type=float, default=6e-3)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    training, images, _ = digits()
    model = Vae(args.hidden)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    loader = DataLoader(training, batch_size=args.batch, shuffle=True)
    run = train.elastic(model, optimizer, loader, epochs=args.epochs, seed=args.seed)
    for epoch in run.epochs():
        for x, _ in run.batches():
            optimizer.zero_grad()
            loss = model(x)
            run.backward(loss)
            run.step()
        held_out = held_out_loss(model, images)
        run.report(held_out_loss=held_out)
        if run.is_leader:
            print(f"epoch {epoch}: held_out_loss={held_out:.4f}", flush=True)


if __name__ == "__main__":
    main()

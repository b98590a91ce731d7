"""A small convolutional network learns to read handwritten digits; reports the held-out accuracy.

Written for one device. What makes it elastic are the lines with `train` and `run`.
"""

from __future__ import annotations

import argparse

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from swell import train
from swell.demo.digits import digits


def build_model() -> nn.Module:
    """Two convolutions and a classifier: (B, 1, 8, 8) pictures -> (B, 10) logits."""
    return nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(12, 24, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(24 * 2 * 2, 10),
    )


def accuracy(model: nn.Module, images: Tensor, labels: Tensor) -> float:
    """Share of the pictures that are read right."""
    device = next(model.parameters()).device
    with torch.no_grad():
        right = model(images.to(device)).argmax(dim=1) == labels.to(device)
    return float(right.float().mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch", type=int, default=96, help="pictures a step, all workers together")
    parser.add_argument("--lr", type=float, default=8e-3)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    training, images, labels = digits()
    model = build_model()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    loader = DataLoader(training, batch_size=args.batch, shuffle=True)
    run = train.elastic(model, optimizer, loader, epochs=args.epochs, seed=args.seed)
    for epoch in run.epochs():
        for x, y in run.batches():
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            run.backward(loss)
            run.step()
        share_right = accuracy(model, images, labels)
        run.report(accuracy=share_right)
        if run.is_leader:
            print(f"epoch {epoch}: accuracy={share_right:.4f}", flush=True)


if __name__ == "__main__":
    main()

"""The job that is measured: an elastic training script with a model of four million parameters."""

from __future__ import annotations

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from swell import train

WIDTH, NUM_LAYERS, NUM_CLASSES = 512, 15, 10
GLOBAL_BATCH, NUM_SAMPLES = 64, 4096
ENDLESS = 10**6


def main() -> None:
    """Train until it is ended."""
    torch.manual_seed(0)
    layers = [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU()) for _ in range(NUM_LAYERS)]
    model = nn.Sequential(*layers, nn.Linear(WIDTH, NUM_CLASSES))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    data = TensorDataset(torch.randn(NUM_SAMPLES, WIDTH), torch.randint(NUM_CLASSES, (NUM_SAMPLES,)))
    loader = DataLoader(data, batch_size=GLOBAL_BATCH, shuffle=True)
    run = train.elastic(model, optimizer, loader, epochs=ENDLESS)
    for _ in run.epochs():
        for x, y in run.batches():
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            run.backward(loss)
            run.step()


if __name__ == "__main__":
    main()

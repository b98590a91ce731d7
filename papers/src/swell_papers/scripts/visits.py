"""A small network learns a line, and counts exactly how often each sample has been visited.

The counts are parameters: plain SGD lowers that of a sample by the same amount at each visit, in whichever
worker that was. So they tell what was applied to the model, after whatever has befallen the job. At the end
of each epoch the samples that were left out so far, and those that came too often, are reported.
"""

from __future__ import annotations

import argparse

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from swell import train

NUM_SAMPLES, NUM_FEATURES = 512, 16


class CountingNet(nn.Module):
    """A regression, and beside it a parameter for each sample."""

    def __init__(self) -> None:
        super().__init__()
        self.line = nn.Sequential(nn.Linear(NUM_FEATURES, 32), nn.Tanh(), nn.Linear(32, 1))
        self.visits = nn.Embedding(NUM_SAMPLES, 1)
        nn.init.zeros_(self.visits.weight)

    def forward(self, index: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """(B,) numbers and (B, F) features -> (B, 1) predictions, and the samples' own parameters."""
        prediction: Tensor = self.line(x)
        visited: Tensor = self.visits(index)
        return prediction, visited


def misses(visits: Tensor, num_epochs: int, batch: int) -> tuple[int, int]:
    """How many visits are lacking after so many epochs, and how many are too many."""
    excess = (-batch * visits).round() - num_epochs
    return int((-excess).clamp(min=0).sum()), int(excess.clamp(min=0).sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch", type=int, default=64, help="samples a step, all workers together")
    args = parser.parse_args()

    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)  # so that counts are exact
    x = torch.randn(NUM_SAMPLES, NUM_FEATURES)
    data = TensorDataset(torch.arange(NUM_SAMPLES), x, x.sum(dim=1, keepdim=True))
    model = CountingNet()
    line, visits = model.line.parameters(), model.visits.parameters()
    optimizer = torch.optim.SGD([{"params": line, "lr": 0.01}, {"params": visits, "lr": 1.0}])
    loader = DataLoader(data, batch_size=args.batch, shuffle=True)
    run = train.elastic(model, optimizer, loader, epochs=args.epochs)
    for epoch in run.epochs():
        for index, features, answers in run.batches():
            optimizer.zero_grad()
            prediction, visited = model(index, features)
            loss = nn.functional.mse_loss(prediction, answers) + visited.mean() - visited.mean().detach()
            run.backward(loss)
            run.step()
        num_lost, num_repeated = misses(model.visits.weight.detach(), epoch + 1, args.batch)
        run.report(samples_lost=num_lost, samples_repeated=num_repeated)


if __name__ == "__main__":
    main()

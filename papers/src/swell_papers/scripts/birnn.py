"""A bidirectional recurrent network reads handwritten digits row by row; reports the held-out accuracy.

The loss is the squared error of the ten outputs.
Written for one device. What makes it elastic are the lines with `train` and `run`.
"""

from __future__ import annotations

import argparse

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from swell import train
from swell.demo.cnn import accuracy
from swell.demo.digits import digits

NUM_DIGITS = 10


class RowReader(nn.Module):
    """One layer in both directions over the rows, and a linear head on the states at both ends."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width
        self.rnn = nn.RNN(8, width, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * width, NUM_DIGITS)

    def forward(self, images: Tensor) -> Tensor:
        """(B, 1, 8, 8) pictures -> (B, 10) outputs, the largest of the digit that is read."""
        states, _ = self.rnn(images.squeeze(1))
        ends = torch.cat([states[:, -1, : self.width], states[:, 0, self.width :]], dim=1)
        outputs: Tensor = self.head(ends)
        return outputs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch", type=int, default=96, help="pictures a step, all workers together")
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    training, images, labels = digits()
    model = RowReader(args.width)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    loader = DataLoader(training, batch_size=args.batch, shuffle=True)
    run = train.elastic(model, optimizer, loader, epochs=args.epochs, seed=args.seed)
    for epoch in run.epochs():
        for x, y in run.batches():
            optimizer.zero_grad()
            answers = nn.functional.one_hot(y, NUM_DIGITS).to(torch.float32)
            loss = nn.functional.mse_loss(model(x), answers)
            loss.backward()
            run.step(loss)
        share_right = accuracy(model, images, labels)
        run.report(accuracy=share_right)
        if run.is_leader:
            print(f"epoch {epoch}: accuracy={share_right:.4f}", flush=True)


if __name__ == "__main__":
    main()

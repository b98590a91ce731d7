"""A bidirectional recurrent network reads handwritten digits row by row.

The loss is the squared error of the ten outputs; the one on held-out pictures is reported.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from swell.demo.digits import digits
from swell_papers.scripts.main_loop import train_model

NUM_DIGITS, WIDTH = 10, 64


class RowReader(nn.Module):
    """One layer in both directions over the rows, and a linear head on the states at both ends."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.RNN(8, WIDTH, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * WIDTH, NUM_DIGITS)

    def forward(self, images: Tensor) -> Tensor:
        """(B, 1, 8, 8) pictures -> (B, 10) outputs, the largest of the digit that is read."""
        states, _ = self.rnn(images.squeeze(1))
        outputs: Tensor = self.head(torch.cat([states[:, -1, :WIDTH], states[:, 0, WIDTH:]], dim=1))
        return outputs


def squared_error(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    """Mean over pictures and outputs."""
    return nn.functional.mse_loss(model(images), nn.functional.one_hot(labels, NUM_DIGITS).float())


if __name__ == "__main__":
    train_model(__doc__.splitlines()[0], RowReader, digits(), squared_error, epochs=10)

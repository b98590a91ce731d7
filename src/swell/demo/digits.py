"""The 1797 handwritten digits that come with scikit-learn, 8 x 8 pixels each."""

from __future__ import annotations

import torch
from sklearn.datasets import load_digits
from torch import Tensor
from torch.utils.data import TensorDataset

NUM_HELD_OUT = 360
SPLIT_SEED = 20_230_325  # the same pictures are held out whatever seed a script trains with


def digits() -> tuple[TensorDataset, Tensor, Tensor]:
    """What to train on, then pictures (N, 1, 8, 8) in [0, 1] and labels (N,) that are held out."""
    data = load_digits()
    images = torch.tensor(data.images, dtype=torch.float32).unsqueeze(1) / 16
    labels = torch.tensor(data.target, dtype=torch.int64)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(SPLIT_SEED))
    held_out, trained = order[:NUM_HELD_OUT], order[NUM_HELD_OUT:]
    return TensorDataset(images[trained], labels[trained]), images[held_out], labels[held_out]

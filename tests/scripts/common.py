"""What the scripts of these folders import, so that each of them is its loop and little else."""

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - as scripts call it
from torch import nn, optim
from torch.utils.data import (
    BatchSampler,
    ConcatDataset,
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    Sampler,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    default_collate,
    random_split,
)

from swell import train
from swell.train import elastic

__all__ = [
    "BatchSampler",
    "ConcatDataset",
    "DataLoader",
    "Dataset",
    "DistributedSampler",
    "F",
    "IterableDataset",
    "RandomSampler",
    "Sampler",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "WeightedRandomSampler",
    "default_collate",
    "elastic",
    "nn",
    "np",
    "optim",
    "random_split",
    "torch",
    "train",
]

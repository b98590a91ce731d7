"""What both sides train: one model, one optimizer, one data set, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils.data import TensorDataset

NUM_TOKENS = 8
NUM_CLASSES = 10
NUM_SAMPLES = 4096
SEED = 0

OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": torch.optim.SGD,  # no state
    "adam": torch.optim.Adam,  # two numbers a parameter
    "adam-fsdp": torch.optim.Adam,  # of a model that two processes divide among themselves
}
#: Processes that a model is divided among with `fully_shard`, by optimizer; others are whole.
NUM_PROCESSES = {"adam-fsdp": 2}


@dataclass(frozen=True)
class Size:
    """A transformer encoder: 12 tensors a layer, as real models have, not two large matrices."""

    num_layers: int
    width: int  #: of the model; the feed-forward part is four times as wide


SIZES = {"1M": Size(5, 128), "25M": Size(8, 512), "100M": Size(8, 1024)}
USUAL = ["1M", "25M"]  #: of a benchmark that is told none


class Encoder(nn.Module):
    """Classifies sequences of vectors, (B, NUM_TOKENS, width) -> (B, NUM_CLASSES)."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(
            size.width, nhead=8, dim_feedforward=4 * size.width, dropout=0.0, batch_first=True
        )
        self.layers = nn.TransformerEncoder(layer, size.num_layers, enable_nested_tensor=False)
        self.head = nn.Linear(size.width, NUM_CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.head(self.layers(x).mean(dim=1))
        return logits


def divide(model: nn.Module, num_processes: int) -> None:
    """As FSDP2's users do: each layer, and then the rest."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (num_processes,), mesh_dim_names=("fsdp",))
    for module in model.modules():
        if isinstance(module, nn.TransformerEncoderLayer):
            fully_shard(module, mesh=mesh)
    fully_shard(model, mesh=mesh)


def mesh_of(model: nn.Module) -> Any:
    """The mesh that it is divided along; None: it is whole."""
    return getattr(next(model.parameters()), "device_mesh", None)


def make_problem(size: str, optimizer: str) -> tuple[nn.Module, torch.optim.Optimizer, TensorDataset]:
    """The same on every call and in every process."""
    torch.manual_seed(SEED)
    model = Encoder(SIZES[size])
    if num := NUM_PROCESSES.get(optimizer):
        divide(model, num)
    samples = torch.randn(NUM_SAMPLES, NUM_TOKENS, SIZES[size].width)
    labels = torch.randint(NUM_CLASSES, (NUM_SAMPLES,))
    return model, OPTIMIZERS[optimizer](model.parameters(), lr=1e-4), TensorDataset(samples, labels)

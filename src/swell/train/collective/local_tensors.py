"""What this process has of a tensor that the script has divided among the processes of its worker.

Such a DTensor has one plain tensor here, its local shard, which shares its memory.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


def is_shard(tensor: torch.Tensor) -> bool:
    """Whether other processes have other parts of it: a DTensor, as `fully_shard` makes them."""
    return type(tensor).__name__ == "DTensor"  # by name: to import the class takes a tenth of a second


def local(tensor: torch.Tensor) -> torch.Tensor:
    """The part of a tensor that is here; without a graph if it is a part."""
    if not is_shard(tensor):
        return tensor
    shard: Any = tensor.detach()
    here: torch.Tensor = shard.to_local()
    return here


def shard_like(whole: torch.Tensor, here: torch.Tensor) -> torch.Tensor:
    """A tensor that is divided as `whole` is, of which this part is here."""
    if not is_shard(whole):
        return here
    like: Any = whole
    made: torch.Tensor = type(like.detach()).from_local(
        here, like.device_mesh, like.placements, run_check=False, shape=like.shape, stride=like.stride()
    )
    return made


def reshard(model: nn.Module) -> None:
    """Have parameters of `fully_shard` be DTensors again, which an evaluation may leave gathered."""
    for module in model.modules():
        if any(kind.__name__ == "FSDPModule" for kind in type(module).__mro__):
            module.reshard()  # type: ignore[operator]

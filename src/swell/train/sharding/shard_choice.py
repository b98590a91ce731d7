"""Choice of what state is divided among workers (`elastic(shard=...)`): what it cannot be combined with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import nn

from swell.train.sharding.divided_block import TOP_HOOKS, DividedBlock, find_blocks
from swell.train.sharding.elementwise import check_elementwise
from swell.train.sharding.large_buffers import LargeBuffers
from swell.train.sharding.state_shard import StateShard

#: What each worker keeps a part of: what the optimizer keeps; or also the parameters of blocks.
ShardChoice = Literal["optimizer"] | Sequence[type[nn.Module] | nn.Module]


def check_choice(shard: ShardChoice, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """See that a state can be divided so.

    Raises:
        ValueError: it cannot; the text says what to change.
        LoopError: the model's blocks cannot be divided.
    """
    if isinstance(shard, str) and shard != "optimizer":
        raise ValueError(f"elastic() got shard={shard!r}; give 'optimizer', or a list of classes of modules")
    if not isinstance(shard, str) and not hasattr(torch._C._autograd, TOP_HOOKS):
        raise ValueError(
            f"elastic() got shard=[...], and torch {torch.__version__} does not tell which hooks for saved "
            "tensors are in force; install torch 2.8 or a later one, or use shard='optimizer'"
        )
    check_elementwise(optimizer)
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    if not isinstance(shard, str):
        parameters += [each for _, _, held in find_blocks(model, _modules(shard)) for each in held]
        if hasattr(model, "_orig_mod") or any(hasattr(module, "_orig_mod") for module in model.modules()):
            raise ValueError(
                "elastic() got shard=[...] and a module that torch.compile has made; blocks change the "
                "memory of their parameters in each pass, which a compiled graph does not see: take one out"
            )
    for parameter in parameters:
        if not parameter.is_contiguous():
            raise ValueError(
                f"elastic() got shard and a parameter of shape {tuple(parameter.shape)} that is not "
                "contiguous, as after to(memory_format=torch.channels_last); take one of them out"
            )


def make_shard(shard: ShardChoice, model: nn.Module, optimizer: torch.optim.Optimizer) -> StateShard:
    """This worker's, which has everything yet."""
    if isinstance(shard, str):
        return StateShard(optimizer)
    found = find_blocks(model, _modules(shard))
    buffers = LargeBuffers()
    return StateShard(optimizer, [DividedBlock(number, *each, buffers) for number, each in enumerate(found)])


def _modules(
    shard: Sequence[type[nn.Module] | nn.Module],
) -> Sequence[type[nn.Module] | nn.Module]:
    """Raises ValueError: they are neither modules nor classes of modules."""
    chosen = tuple(shard) if isinstance(shard, Sequence) else (shard,)
    for each in chosen:
        if not (isinstance(each, nn.Module) or (isinstance(each, type) and issubclass(each, nn.Module))):
            raise ValueError(
                f"elastic() got shard with {each!r:.80}; give 'optimizer', or a list of classes of modules, "
                "such as [Block]"
            )
    return chosen

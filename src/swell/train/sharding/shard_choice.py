"""Choice of what state is divided among workers (`elastic(shard=...)`): what it cannot be combined with."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Sequence
from typing import Literal

import torch
from torch import nn

from swell.train.sharding.divided_block import TOP_HOOKS, DividedBlock, find_blocks
from swell.train.sharding.large_buffers import LargeBuffers
from swell.train.sharding.state_shard import StateShard

#: What each worker keeps a part of: what the optimizer keeps; or also the parameters of blocks.
ShardChoice = Literal["optimizer"] | Sequence[type[nn.Module] | nn.Module]
#: Elements of the first of two stretches into which a parameter is cut for the check, and of the parameter.
FIRST, SHAPE = 10, (4, 6)
NUM_STEPS = 3


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


def check_elementwise(optimizer: torch.optim.Optimizer) -> None:
    """Compare a few steps on a small parameter with the same steps on two stretches of it.

    The optimizer itself is not changed.

    Raises:
        ValueError: the results differ, or the optimizer cannot step a stretch.
    """
    kind = type(optimizer).__name__
    try:
        whole = _stepped(optimizer, SHAPE, slice(None))
        size = SHAPE[0] * SHAPE[1]
        parts = torch.cat([_stepped(optimizer, (size,), cut) for cut in (slice(FIRST), slice(FIRST, None))])
    except Exception as error:
        raise ValueError(
            f"elastic() got shard='optimizer' and {kind}, which cannot update a stretch of a parameter "
            f"({type(error).__name__}: {error}); take shard out, or an optimizer such as AdamW"
        ) from error
    if not torch.allclose(whole, parts, rtol=1e-5, atol=1e-7):
        raise ValueError(
            f"elastic() got shard='optimizer' and {kind}, whose update of an element depends on others of "
            "its parameter, as a norm does; divided among workers it would compute something else: take "
            "shard out, or an optimizer such as AdamW"
        )


def _stepped(optimizer: torch.optim.Optimizer, shape: tuple[int, ...], cut: slice) -> torch.Tensor:
    """A stretch of the elements after a few steps of an optimizer like this one that has no others."""
    numbers = torch.Generator().manual_seed(0)
    start, gradients = (torch.randn(count, *SHAPE, generator=numbers) for count in (1, NUM_STEPS))
    first = optimizer.param_groups[0]["params"][0]
    parameter = torch.nn.Parameter(start.reshape(shape)[cut].to(first.device))
    twin = object.__new__(type(optimizer))  # a copy would lose what Optimizer does not know
    twin.__dict__.update(optimizer.__dict__)
    twin.state = defaultdict(dict)
    group = {key: copy.copy(value) for key, value in optimizer.param_groups[0].items() if key != "params"}
    twin.param_groups = [{**group, "params": [parameter]}]
    step = type(optimizer).step
    for gradient in gradients:
        parameter.grad = gradient.reshape(shape)[cut].to(first.device)
        getattr(step, "__wrapped__", step)(twin)
    return parameter.detach().reshape(-1)

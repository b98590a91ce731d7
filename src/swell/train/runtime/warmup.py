"""What a worker can do before it joins, so that its first step takes no longer than its second.

The first use of a page of memory costs several times what copying it costs, for the kernel clears it. A
worker touches as much as training will need, and gives it back to its own heap, which keeps it where
`MALLOC_TRIM_THRESHOLD_` and `MALLOC_MMAP_THRESHOLD_` tell it to.
"""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import nn

from swell.train.runtime.host import Task


def warm_up(task: Task) -> None:
    """Touch memory for the gradients, the buffer they are summed in, and the optimizer's state.

    A GPU multiplies two small matrices, forward and backward: libraries are loaded at their first use.
    """
    device = next(task.state.model.parameters()).device
    if device.type == "cuda":
        matrix = torch.ones(64, 64, device=device, requires_grad=True)
        (matrix @ matrix).sum().backward()
        torch.cuda.synchronize(device)
    shard, has_blocks = task.state.shard, task.state.shard_of_blocks is not None
    trained = [p for p in task.state.model.parameters() if p.requires_grad and p.device.type == "cpu"]
    parameters = [parameter for parameter in trained if shard is None or not shard.divides(parameter)]
    if parameters:
        grad_bytes = sum(parameter.nbytes for parameter in parameters)
        is_divided = shard is not None  # then no worker will have the whole of it
        state_bytes = 0 if is_divided else sum(map(optimizer_bytes, task.state.optimizers))
        # What a step needs of divided blocks is little beside the model that is here yet.
        summed_bytes = 0 if has_blocks else task.gradients.num_bytes
        num_bytes = grad_bytes + summed_bytes + state_bytes
        _touch(num_bytes)
    torch.zeros(1, device="cpu", requires_grad=True).sum().backward()  # starts the engine


def _touch(num_bytes: int) -> None:
    try:
        torch.zeros(num_bytes, dtype=torch.uint8, device="cpu")
    except RuntimeError:
        pass  # there is not as much: training will say so, or do with less


def optimizer_bytes(optimizer: torch.optim.Optimizer) -> int:
    """Bytes of state that it will have once it has made a step; 0 if that cannot be tried on one number."""
    return sum(
        _num_slots(optimizer, group) * sum(parameter.nbytes for parameter in group["params"])
        for group in optimizer.param_groups
    )


def _num_slots(optimizer: torch.optim.Optimizer, group: dict[str, Any]) -> int:
    """Tensors of a parameter's size that it keeps for each parameter of a group."""
    number = nn.Parameter(torch.zeros(1, device="cpu"))
    number.grad = torch.zeros_like(number)
    known = inspect.signature(type(optimizer)).parameters  # AdamW's defaults have what it does not take
    options = {name: group[name] for name in optimizer.defaults if name in group and name in known}
    try:
        trial = type(optimizer)([number], **options)
        trial.step()
    except (TypeError, ValueError, RuntimeError, KeyError, AttributeError):
        return 0  # made in another way, or stepping in another
    return sum(isinstance(kept, torch.Tensor) and kept.shape == (1,) for kept in trial.state[number].values())

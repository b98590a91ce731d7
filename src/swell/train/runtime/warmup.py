"""What a worker can do before it joins, so that its first step takes no longer than its second.

The first use of a page of memory costs several times what copying it costs, for the kernel clears it. A
worker touches as much as training will need, and gives it back to its own heap, which keeps it where
`MALLOC_TRIM_THRESHOLD_` and `MALLOC_MMAP_THRESHOLD_` tell it to.
"""

from __future__ import annotations

import torch

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
    if device.type == "cpu":
        _touch(_bytes_to_come(task))
    torch.zeros(1, device="cpu", requires_grad=True).sum().backward()  # starts the engine


def _bytes_to_come(task: Task) -> int:
    """Bytes on the heap that the first steps will want beyond what is there."""
    trained = (parameter for parameter in task.state.model.parameters() if parameter.requires_grad)
    kept_bytes = sum(map(optimizer_bytes, task.state.optimizers))
    return sum(each.nbytes for each in trained) + task.gradients.num_bytes + kept_bytes


def _touch(num_bytes: int) -> None:
    try:
        torch.zeros(num_bytes, dtype=torch.uint8, device="cpu")
    except RuntimeError:
        pass  # there is not as much: training will say so, or do with less


def optimizer_bytes(optimizer: torch.optim.Optimizer) -> int:
    """Bytes of state that it will have once it has made a step, by the options of torch's own optimizers."""
    return sum(
        (2 if "betas" in group else 1 if group.get("momentum") else 0)
        * sum(each.nbytes for each in group["params"] if each.requires_grad)
        for group in optimizer.param_groups
    )

"""What a worker can do before it joins, so that its first step takes no longer than its second.

The first use of a page of memory costs several times what copying it costs, for the kernel clears it. A
worker touches as much as training will need, and gives it back to its own heap, which keeps it where
`MALLOC_TRIM_THRESHOLD_` and `MALLOC_MMAP_THRESHOLD_` tell it to, or to its buffers for blocks.
"""

from __future__ import annotations

import torch

from swell.train.runtime.host import Task


def warm_up(task: Task, num_workers: int) -> None:
    """Touch memory for the gradients, the buffer they are summed in, and the optimizer's state.

    Of a state that is divided among `num_workers`, that is what one of them holds; 0: it is not known.
    A GPU multiplies two small matrices, forward and backward: libraries are loaded at their first use.
    """
    device = next(task.state.model.parameters()).device
    if device.type == "cuda":
        matrix = torch.ones(64, 64, device=device, requires_grad=True)
        (matrix @ matrix).sum().backward()
        torch.cuda.synchronize(device)
    if device.type == "cpu":
        _touch(_bytes_to_come(task, num_workers))
        if task.state.shard_of_blocks is not None and num_workers > 1:
            task.state.shard_of_blocks.warm_up(num_workers)
    torch.zeros(1, device="cpu", requires_grad=True).sum().backward()  # starts the engine


def _bytes_to_come(task: Task, num_workers: int) -> int:
    """Bytes on the heap that the first steps will want beyond what is there."""
    state, shard = task.state, task.state.shard
    trained = [parameter for parameter in state.model.parameters() if parameter.requires_grad]
    kept_bytes = sum(map(optimizer_bytes, state.optimizers))
    if shard is None:
        return sum(each.nbytes for each in trained) + task.gradients.num_bytes + kept_bytes
    block_bytes = shard.block_bytes()
    whole_bytes = sum(each.nbytes for each in trained if not shard.divides(each))
    summed_bytes = whole_bytes if block_bytes else task.gradients.num_bytes
    part_bytes = kept_bytes + block_bytes + sum(each.nbytes for each in trained if shard.divides(each))
    share = min(1.0, task.num_holders / num_workers) if num_workers else 0.0
    # A worker gets its share of blocks and of their gradients in place of the model's blocks.
    return max(0, whole_bytes + summed_bytes + round(share * part_bytes) - block_bytes)


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

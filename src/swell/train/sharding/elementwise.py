"""Whether an optimizer treats each element of a parameter by itself, so that its work can be divided."""

from __future__ import annotations

import copy
from collections import defaultdict

import torch

#: Elements of the first of two stretches into which a parameter is cut for the check, and of the parameter.
FIRST, SHAPE = 10, (4, 6)
NUM_STEPS = 3


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

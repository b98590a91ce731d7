"""Training states of models that the processes of a worker have among them."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from swell.train.state.train_state import TrainState

WIDTH = 48


def made(layout: str, seed: int, num_steps: int, width: int = WIDTH) -> TrainState:
    """Trained so far; a shard of one of its tensors is empty.

    `plain`: of one process that has all. `stages`: each process has a model of its own, as of a pipeline.
    """
    torch.manual_seed(seed)
    if layout == "stages":
        return _stage(dist.get_rank(), num_steps)
    model = nn.Sequential(nn.Linear(width, 5 * width), nn.Tanh(), nn.Linear(5 * width, 1), nn.LayerNorm(1))
    size = dist.get_world_size() if dist.is_initialized() else 1
    average = torch.full((3, 2), float(seed))
    if layout != "plain":
        average = _divide(model, layout, size, average)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    state = TrainState(model, optimizer, None, {})
    state.objects["average"] = average
    for _ in range(num_steps):
        train(state)
    return state


def _stage(own: int, num_steps: int) -> TrainState:
    model = nn.Sequential(OrderedDict({f"stage{own}": nn.Linear(WIDTH, 1 + own), "norm": nn.Softmax(1)}))
    state = TrainState(model, torch.optim.AdamW(model.parameters(), lr=0.01), None, {})
    state.objects["average"] = torch.ones(3)
    for _ in range(num_steps):
        train(state)
    return state


def train(state: TrainState) -> None:
    first: Any = next(state.model.children())
    inputs = torch.sin(torch.arange(4.0 * first.in_features)).reshape(4, -1)
    state.model(0.1 * (state.steps + 1) * inputs).square().sum().backward()
    state.optimizers[0].step()
    state.optimizers[0].zero_grad()
    state.steps += 1


def _divide(model: nn.Sequential, layout: str, size: int, average: torch.Tensor) -> torch.Tensor:
    if layout == "fsdp":
        mesh = init_device_mesh("cpu", (size,), mesh_dim_names=("fsdp",))
    else:  # the same dimensions, whatever the size
        mesh = init_device_mesh("cpu", (size // 2, 2), mesh_dim_names=("fsdp", "tp"))
        parallelize_module(model, mesh["tp"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
    for module in (model[0], model[2], model):
        fully_shard(module, mesh=mesh["fsdp"])
    return distribute_tensor(average, mesh["fsdp"], [Shard(0)])


def whole(state: TrainState) -> dict[str, torch.Tensor]:
    """All of its tensors, on each process."""
    optimizer = state.optimizers[0]
    named = dict(state.model.state_dict())
    for name, parameter in state.model.named_parameters():
        named |= {f"{key} of {name}": value for key, value in optimizer.state.get(parameter, {}).items()}
    named["average"] = state.objects["average"]
    return {name: _full(value).detach().clone() for name, value in named.items()}


def _full(tensor: Any) -> torch.Tensor:
    full: torch.Tensor = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
    return full


def same(ours: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor]) -> bool:
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)

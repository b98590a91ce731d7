"""Trains a model that is divided among the processes of a worker, in float64.

Arguments: a file for what it has learnt; `plain` (a loop of torch, in one process), `fsdp`, `tp`, `both` or
`hsdp`; and words, each of which changes one thing, see where they are used.
"""

import json
import sys
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn import functional
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from swell import train

EPOCHS, BATCH = 3, 13
path, kind, *words = sys.argv[1:]
NUM_SAMPLES = (
    93 if "statistics" in words else 92
)  # the last batch has one, for two parts; BatchNorm wants two
torch.manual_seed(0)
torch.set_default_dtype(torch.float32 if "bfloat16" in words else torch.float64)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(6, 10), nn.Linear(10, 5)
        self.norm, self.head = nn.LayerNorm(5), nn.Linear(5, 1)
        self.scale = nn.Parameter(torch.ones(3))  # of which a batch may use a part, or nothing
        self.seen = nn.BatchNorm1d(6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if "statistics" in words:
            self.seen(x)  # whose output would depend on what goes through the model together
        h = self.head(self.norm(self.down(functional.gelu(self.up(x)))))
        rare = (x[:, :1] > 1.2) if "sometimes" in words else torch.ones(len(x), 1, dtype=torch.bool)
        return torch.where(rare, h * self.scale[0], h) if rare.any() else h


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        return zip(x, y, strict=True)


x = torch.randn(NUM_SAMPLES, 6)
y = x.sin().sum(1, keepdim=True)
counts = torch.randint(0, 3, (NUM_SAMPLES, 1)).to(x)
counts[:7] = 0  # of a whole part
counts[2 * BATCH : 3 * BATCH] = 0  # of a whole batch
y = torch.cat([y, counts], 1)
model = Net()
if "frozen" in words:
    model.down.requires_grad_(False)
kinds = {"hsdp": ("replicas", "fsdp"), "both": ("fsdp", "tp"), "plain": ()}.get(kind, (kind,))
mesh: Any = init_device_mesh("cpu", (2,) * len(kinds), mesh_dim_names=kinds) if kinds else None
inner: Any = None
if "tp" in kinds:
    parallelize_module(model, mesh["tp"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
if "fsdp" in kinds:
    inner = mesh if kind == "hsdp" else mesh["fsdp"]
    policy = (
        MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        if "bfloat16" in words
        else MixedPrecisionPolicy()
    )
    fully_shard(model.up, mesh=inner, mp_policy=policy)
    if "outside" not in words:
        fully_shard(model, mesh=inner, mp_policy=policy)
if "divides" in words and "fsdp" in kinds:  # by itself, and wrongly for uneven parts
    sharded: Any = model.up
    sharded.set_gradient_divide_factor(1.0)
if "compiled" in words:
    model.up.compile(backend="aot_eager")
optimizers: dict[str, torch.optim.Optimizer]
if "two" in words:
    optimizers = {
        "first": torch.optim.AdamW(model.up.parameters(), lr=1e-2),
        "second": torch.optim.SGD([*model.down.parameters(), *model.head.parameters()], lr=1e-2),
    }
else:
    optimizers = {
        "only": torch.optim.AdamW([each for each in model.parameters() if each.requires_grad], lr=1e-2)
    }
loader: Any = DataLoader(Stream() if "stream" in words else TensorDataset(x, y), batch_size=BATCH)
losses: dict[int, float] = {}
norms: dict[int, float] = {}
run: Any = None


def loss_of(inputs: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, float | None]:
    errors = (model(inputs) - targets[:, :1]).square()
    if "weights" in words:
        counted = targets[:, 1:]
        return (errors * counted).sum() / counted.sum(), float(counted.sum())
    return errors.sum() / BATCH if "sum" in words else errors.mean(), None


def clip(step: int) -> None:
    if "clip" in words:
        norm: Any = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        norms[step] = float(norm.full_tensor() if hasattr(norm, "full_tensor") else norm)


def train_plainly() -> None:
    step = 0
    for _ in range(EPOCHS):
        for inputs, targets in loader:
            for optimizer in optimizers.values():
                model.zero_grad()
                loss, weight = loss_of(inputs, targets)
                if weight == 0:
                    losses[step] = 0.0
                    continue
                loss.backward()
                losses.setdefault(step, float(loss.detach()))
                clip(step)
                optimizer.step()
            step += 1


def train_elastically() -> None:
    global run
    run = train.elastic(
        model,
        optimizers if "two" in words else optimizers["only"],
        loader,
        epochs=EPOCHS,
        mesh=inner,
        max_local_batch=2 if "passes" in words else None,
        loss_reduction="sum" if "sum" in words else "mean",
    )
    for _ in run.epochs():
        for inputs, targets in run.batches():
            step = run.updates
            for optimizer in optimizers.values():
                model.zero_grad()
                loss, weight = loss_of(inputs, targets)
                told = run.backward(loss, weight=weight)
                clip(step)
                run.step(optimizer)
                if run.has_stepped:
                    losses.setdefault(step, float(told))


train_plainly() if kind == "plain" else train_elastically()
whole: dict[str, Any] = {}
for name, value in model.state_dict().items():
    value = value.full_tensor() if hasattr(value, "full_tensor") else value
    whole[name] = value.flatten().tolist()
    if dist.is_initialized():  # a plain tensor is the same at all positions
        others = [torch.empty_like(value) for _ in range(dist.get_world_size())]
        dist.all_gather(others, value.contiguous())
        assert all(torch.equal(value, other) for other in others), name
if run is None or run.is_leader:
    with open(path, "w") as file:
        json.dump({"losses": losses, "norms": norms, "model": whole}, file)
if dist.is_initialized():
    dist.destroy_process_group()

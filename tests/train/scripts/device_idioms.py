"""Loops as they are written for GPUs, on the device that TEST_DEVICE names, in float64.

Arguments: file for the result, epochs, idiom (see `IDIOMS`).
"""

import json
import os
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from swell import train

DEVICE = torch.device(os.environ.get("TEST_DEVICE", "cpu"))
Forward = Callable[[torch.Tensor], torch.Tensor]


class Graphed(nn.Module):
    """A model as CUDA graphs: one for each shape of a batch, which another number of workers changes."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self._graphs: dict[torch.Size, Callable[..., Any]] = {}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape not in self._graphs:
            around = nn.Sequential(self.model)  # what is captured gets another forward
            self._graphs[x.shape] = torch.cuda.make_graphed_callables(around, (x.clone(),))
        result: torch.Tensor = self._graphs[x.shape](x)
        return result


def same(model: nn.Module) -> nn.Module:
    return model


def channels_last(model: nn.Module) -> nn.Module:
    changed: nn.Module = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return changed


def compiled(model: nn.Module) -> Forward:
    """Triton's kernels on a GPU. C++ takes minutes, and has a test of its own (`test_compile.py`)."""
    backend = "inductor" if DEVICE.type == "cuda" else "eager"
    return torch.compile(model, dynamic=True, backend=backend)


#: What becomes of the model, and options of the optimizer; whether gradients are scaled, and become zeros.
IDIOMS: dict[str, tuple[Callable[..., Any], dict[str, Any], bool, bool]] = {
    "compiled": (compiled, {}, False, False),
    "graphed": (Graphed, {}, False, False),
    "scaled": (same, {}, True, False),
    "fused": (same, {"fused": True}, False, False),
    "fused scaled": (same, {"fused": True}, True, False),
    "zeroed": (same, {"foreach": True}, False, True),
    "channels last": (channels_last, {}, False, False),
    "channels last fused scaled": (channels_last, {"fused": True}, True, False),
}

result, epochs, idiom = sys.argv[1:]
make_forward, options, is_scaled, is_zeroed = IDIOMS[idiom]
torch.set_default_dtype(torch.float64)
torch.manual_seed(7)
x = torch.randn(45, 3, 6, 6)
y = torch.sin(x.sum((1, 2, 3))).view(45, 1)
layers = (nn.Conv2d(3, 8, 3), nn.Tanh(), nn.Conv2d(8, 4, 1), nn.Tanh(), nn.Flatten(), nn.Linear(64, 1))
model = nn.Sequential(*layers).to(DEVICE)
forward = make_forward(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.02, **options)
scaler = torch.amp.GradScaler(DEVICE.type, init_scale=2.0**10, growth_interval=5, enabled=is_scaled)
loader = DataLoader(TensorDataset(x, y), batch_size=6, shuffle=True)
run = train.elastic(model, optimizer, loader, epochs=int(epochs))
places = [parameter.data_ptr() for parameter in model.parameters()]
for _ in run.epochs():
    for a, b in run.batches():
        optimizer.zero_grad(set_to_none=not is_zeroed)
        if idiom.startswith("channels last"):
            a = a.to(memory_format=torch.channels_last)
        loss = functional.mse_loss(forward(a), b)
        run.backward(loss, scaler=scaler)
        run.step()

if run.is_leader:
    with open(result, "w") as file:
        content = {
            "steps": run.steps,
            "scale": scaler.get_scale(),
            "weights": [value for each in model.parameters() for value in each.detach().flatten().tolist()],
            "stayed": places == [parameter.data_ptr() for parameter in model.parameters()],
            "layout": [parameter.stride() for parameter in model.parameters()],
            "device": str(run.device),
        }
        json.dump(content, file)

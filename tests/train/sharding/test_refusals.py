"""What cannot be divided among workers is refused by name, before the first step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from swell import train
from swell.train.sharding.elementwise import check_elementwise

Make = Callable[[list[nn.Parameter]], torch.optim.Optimizer]


class WithNorm(torch.optim.SGD):
    """Scales its update by the norm of the parameter, as LAMB and LARS do."""

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    parameter.data.add_(parameter.grad, alpha=-group["lr"] * float(parameter.data.norm()))


class WithCommonNorm(torch.optim.SGD):
    """Divides its update by the norm of all gradients that it has."""

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        held = [parameter for group in self.param_groups for parameter in group["params"]]
        norm = sum(float(parameter.grad.square().sum()) for parameter in held) ** 0.5
        for parameter in held:
            parameter.data.add_(parameter.grad, alpha=-0.1 / norm)


@pytest.mark.parametrize(
    "make",
    [
        lambda held: torch.optim.SGD(held, lr=0.1, momentum=0.9, nesterov=True),
        lambda held: torch.optim.AdamW(held, amsgrad=True),
        lambda held: torch.optim.AdamW(held, fused=True),
        torch.optim.RMSprop,
        torch.optim.Adagrad,
        torch.optim.NAdam,
        torch.optim.Rprop,
    ],
)
def test_elementwise_optimizers_are_accepted_and_stay_as_they_are(make: Make) -> None:
    parameter = nn.Parameter(torch.ones(3, 4))
    optimizer = make([parameter])
    before = str(optimizer.state_dict())
    check_elementwise(optimizer)
    assert str(optimizer.state_dict()) == before
    assert optimizer.param_groups[0]["params"] == [parameter]
    assert parameter.equal(torch.ones(3, 4))


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (torch.optim.Adafactor, "depends on others"),
        (lambda held: WithNorm(held, lr=0.1), "depends on others"),
        (lambda held: WithCommonNorm(held, lr=0.1), "depends on others"),
        (torch.optim.Muon, "cannot update a stretch"),
        (torch.optim.SparseAdam, "cannot update a stretch"),
    ],
)
def test_others_are_refused(make: Make, why: str) -> None:
    optimizer = make([nn.Parameter(torch.ones(3, 4))])
    with pytest.raises(ValueError, match=f"shard='optimizer' and {type(optimizer).__name__}.*{why}"):
        check_elementwise(optimizer)


def _elastic(model: nn.Module, optimizer: object = None, **options: object) -> object:
    loader = DataLoader(TensorDataset(torch.ones(8, 4)), batch_size=4)
    stepped = optimizer or torch.optim.AdamW(model.parameters())
    return train.elastic(model, stepped, loader, epochs=1, **options)  # type: ignore[arg-type]


def test_what_does_not_go_together_is_named() -> None:
    model = nn.Linear(4, 4)
    several = {"a": torch.optim.SGD([model.weight], lr=0.1), "b": torch.optim.SGD([model.bias], lr=0.1)}
    for options, why in (
        ({"shard": "optimizer", "deterministic": True}, "deterministic=True"),
        ({"shard": "optimizer", "rate_rule": "adascale"}, "adascale"),
        ({"shard": "parameters"}, "shard='parameters'"),
        ({"mirrors": True}, "mirrors=True without shard"),
        ({"shard": "optimizer", "optimizer": several}, "several optimizers"),
    ):
        with pytest.raises(ValueError, match=why):
            _elastic(model, **options)


def test_a_parameter_in_another_memory_format_is_refused() -> None:
    model = nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    with pytest.raises(ValueError, match=r"not contiguous.*channels_last"):
        _elastic(model, shard="optimizer")

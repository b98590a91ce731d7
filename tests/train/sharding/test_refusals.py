"""What cannot be divided among workers is refused by name, before the first step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from swell.train.sharding.divided_block import TOP_HOOKS
from swell.train.sharding.shard_choice import check_choice, check_elementwise
from tests.train.curve_runs import CURVE
from tests.train.fake_agent import FakeAgent
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from swell import train
from swell.train.collective.gradients import LoopError

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
        ({"shard": "parameters"}, "shard='parameters'"),
        ({"mirrors": True}, "mirrors=True without shard"),
        ({"shard": [nn.Linear, "Block"]}, "list of classes of modules"),
        ({"shard": 3}, "list of classes of modules"),
        ({"shard": "optimizer", "optimizer": several}, "several optimizers"),
    ):
        with pytest.raises(ValueError, match=why):
            _elastic(model, **options)


def test_blocks_are_refused_where_torch_is_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept of the optimizer alone can be divided there."""
    model = nn.Linear(4, 4)
    optimizer = torch.optim.Adam(model.parameters())
    monkeypatch.delattr(torch._C._autograd, TOP_HOOKS)
    check_choice("optimizer", model, optimizer)
    with pytest.raises(ValueError, match=r"install torch 2\.8 or a later one, or use shard='optimizer'"):
        check_choice([nn.Linear], model, optimizer)


def test_a_parameter_in_another_memory_format_is_refused() -> None:
    model = nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    with pytest.raises(ValueError, match=r"not contiguous.*channels_last"):
        _elastic(model, shard="optimizer")


class Pair(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)


def _tied() -> nn.Module:
    model = Pair()
    model.second.weight = model.first.weight
    return model


def _mixed() -> nn.Module:
    model = Pair()
    model.second.bias = nn.Parameter(torch.zeros(4, dtype=torch.float64))
    return model


def _whole_numbers() -> nn.Module:
    model = Pair()
    model.second.bias = nn.Parameter(torch.zeros(4, dtype=torch.int8), requires_grad=False)
    return model


def _compiled() -> nn.Module:
    model = Pair()
    model.second = torch.compile(model.second)  # type: ignore[assignment]
    return model


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "kind", "why"),
    [
        (Pair, nn.Conv2d, r"shard=\[Conv2d\], and the model has no such module"),
        (Pair, nn.Linear(4, 4), r"shard=\[Linear\], and the model has no such module"),
        (_tied, nn.Linear, "'second.weight', which is in the block 'second' and in the block 'first'"),
        (_mixed, nn.Linear, "'second' with parameters of torch.float32 on cpu, torch.float64 on cpu"),
        (_whole_numbers, nn.Linear, "'second' with parameters of torch.int8; register"),
        (_compiled, nn.Linear, "torch.compile"),
    ],
)
def test_blocks_that_cannot_be_divided_are_named(
    make: Callable[[], nn.Module], kind: type[nn.Module], why: str
) -> None:
    with pytest.raises((ValueError, LoopError), match=why):
        _elastic(make(), shard=[kind])


#: What a script does that it cannot do with divided blocks, and a part of what it is told.
HABITS = {
    "alone": "take out what only one of them does",
    "state_dict": "read the whole model from a checkpoint",
    "weight": "leave the weight out",
    "own norm": "uses the gradient of",
    "scaler": "GradScaler",
    "before": "between elastic() and its first batch",
    "written": "the script sets it by hand",
    "taken": "takes it away",
    "filled": "the script uses the parameter 'blocks.1.weight'",
    "limited": "the forward pass of the block 'blocks.0' writes to its parameters",
    "state cleared": "the script uses optimizer.state",
    "zeroed between": "takes it away",
    "state loaded": "load_state_dict() of the optimizer",
}


@pytest.mark.slow
@pytest.mark.parametrize(("habit", "told"), HABITS.items())
def test_a_habit_that_does_not_go_with_divided_blocks_is_named(
    start_agent: Callable[..., FakeAgent], habit: str, told: str
) -> None:
    agent = start_agent(total_steps=40, checkpoint_interval_s=1e9)
    agent.start_ready([0, 1], CURVE.with_name("shard_habits.py"), habit)
    agent.regroup([0, 1], source=None)
    statuses = [agent.exit_status(worker) for worker in (0, 1)]
    assert any(statuses), statuses
    assert told in agent.logs()


@pytest.mark.slow
@pytest.mark.parametrize("habit", ["zeroed before", "zeroed after", "in place", "none"])
def test_a_habit_that_goes_with_divided_blocks_is_not_refused(
    start_agent: Callable[..., FakeAgent], habit: str
) -> None:
    agent = start_agent(total_steps=40, checkpoint_interval_s=1e9, ends_when_told=True)
    agent.start_ready([0, 1], CURVE.with_name("shard_habits.py"), habit)
    agent.regroup([0, 1], source=None)
    assert [agent.exit_status(worker) for worker in (0, 1)] == [0, 0], agent.logs()

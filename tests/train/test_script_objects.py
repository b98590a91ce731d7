"""Objects that a script changes between are saved by their types, and made again in another process."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - as scripts call it
from torch.utils.data import DataLoader, TensorDataset

from swell.train.state import codec
from swell.train.state.script_values import can_be_made, mark, pack, unpack
from swell.train.state.script_variables import ScriptVariables
from swell.wire.findings import ScriptFinding


class Focal(nn.Module):
    def __init__(self, gamma: float) -> None:
        super().__init__()
        self.gamma = gamma
        self.inner = nn.CrossEntropyLoss(weight=torch.arange(1.0, 4.0))

    def forward(self, scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return self.gamma * torch.as_tensor(self.inner(scores, labels))


class Stage(Enum):
    FIRST = 1
    SECOND = 2


def through_checkpoint(value: Any) -> Any:
    packed = pack(value)
    assert packed is not None
    return codec.decode(*codec.encode(packed))


@pytest.mark.parametrize(
    ("now", "before"),
    [
        (nn.SmoothL1Loss(beta=2.0), nn.MSELoss()),
        (nn.MSELoss(reduction="sum"), nn.MSELoss()),
        (Focal(3.0), Focal(2.0)),
        (Focal(3.0), nn.MSELoss()),
        (nn.Sequential(nn.Tanh(), nn.Dropout(0.3)), None),
    ],
    ids=["another type", "another option", "another attribute", "of parts", "none before"],
)
def test_a_module_without_parameters_is_made_again(now: nn.Module, before: nn.Module | None) -> None:
    is_same_type = type(before) is type(now)
    again = unpack(before, through_checkpoint(now))
    assert (again is before) == is_same_type and can_be_made(now)
    assert mark(again) == mark(now) and repr(again) == repr(now)
    scores, labels = torch.randn(5, 3), torch.arange(5) % 3
    if isinstance(now, Focal):
        assert torch.equal(again(scores, labels), now(scores, labels))


@pytest.mark.parametrize(
    ("now", "before"),
    [
        (F.l1_loss, F.mse_loss),
        (F.gelu, F.relu),
        (torch.sin, torch.cos),
        (operator.mul, operator.add),
        (Stage.SECOND, Stage.FIRST),
    ],
)
def test_functions_and_members_are_found_by_their_names(now: Any, before: Any) -> None:
    assert unpack(before, through_checkpoint(now)) is now
    assert mark(now) != mark(before) and Stage(1) is Stage.FIRST


def test_what_cannot_be_made_is_an_error() -> None:
    layer = nn.Linear(2, 1)
    assert not can_be_made(layer) and not can_be_made(lambda: 1) and pack(lambda: 1) is None
    with pytest.raises(TypeError, match=r"torch.nn.modules.linear.Linear cannot be made again"):
        unpack(None, through_checkpoint(layer))
    parameter = nn.Parameter(torch.zeros(1))
    before = torch.optim.lr_scheduler.LinearLR(torch.optim.SGD([parameter], 0.1))
    now = torch.optim.lr_scheduler.StepLR(torch.optim.SGD([parameter], 0.1), 3)
    with pytest.raises(TypeError, match=r"was a torch.optim.lr_scheduler.StepLR, and here it is a LinearLR"):
        unpack(before, through_checkpoint(now))


def test_a_change_that_cannot_be_saved_is_told_with_its_line() -> None:
    told: list[ScriptFinding] = []
    variables = ScriptVariables()
    variables.is_wanted, variables.tell = True, told.append

    def train() -> Iterator[None]:
        score: nn.Module = nn.Linear(2, 1)
        criterion: nn.Module = nn.MSELoss()
        loader = DataLoader(TensorDataset(torch.zeros(4)))
        for epoch in range(3):
            variables.reach_boundary(sys._getframe())
            variables.tree()
            variables.leave_boundary()
            yield
            if epoch == 1:
                score = nn.Sequential(nn.Linear(2, 1))  # here
                criterion = nn.L1Loss()
        print(score, loader, criterion)

    rounds = train()
    next(rounds)
    next(rounds)
    assert told == []
    with pytest.warns(UserWarning, match="is another one than when the loop began"):
        next(rounds)
    [finding] = told
    line = int(finding.place.rpartition(":")[2])
    assert "# here" in Path(__file__).read_text().splitlines()[line - 1]
    assert finding.name == "script-variable" and not finding.holds
    assert finding.text.startswith("`train().score` is another one than when the loop began")


def test_a_variable_of_a_closure_may_be_deleted_and_set_again() -> None:
    variables = ScriptVariables()
    variables.is_wanted = True

    def train() -> Iterator[Callable[[int | None], None]]:
        def keeper() -> Callable[[int | None], None]:
            count = 0

            def keep(value: int | None) -> None:
                nonlocal count
                if value is None:
                    del count
                else:
                    count = value

            return keep

        keep = keeper()
        for _ in range(3):
            variables.reach_boundary(sys._getframe())
            variables.leave_boundary()
            variables.begin_step(sys._getframe())
            yield keep

    steps = train()
    keep, name = next(steps), "train().keep.count"
    keep(1)
    next(steps)
    assert variables.tree()[name] == {"value": 1}
    keep(None)
    next(steps)
    assert name not in variables.tree()
    variables.rewind()
    keep(2)
    assert variables.tree()[name] == {"value": 2}

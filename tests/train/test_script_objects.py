"""Objects that a script changes between are saved by their types, and made again in another process."""

from __future__ import annotations

import io
import sys
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from swell.script_facts import ScriptFinding
from swell.train.state import codec
from swell.train.state.script_values import can_be_made, copied, pack, unpack
from swell.train.state.script_variables import ScriptVariables


def through_checkpoint(value: Any) -> Any:
    packed = pack(value)
    assert packed is not None
    file = io.BytesIO()
    torch.save(codec.decode(*codec.encode(packed), for_file=True), file)
    file.seek(0)
    return codec.decode(*codec.encode(torch.load(file, weights_only=True)))


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


class Best(NamedTuple):
    loss: float
    per_class: np.ndarray


def test_arrays_deques_and_records_within_containers_come_back_in_their_place() -> None:
    def history() -> dict[Any, Any]:
        zeros = np.zeros(3)
        return {
            "sum": zeros,
            ("train", 1): deque([0.5], maxlen=2),
            "best": Best(9.0, np.zeros(2)),
            "seen": set(),
        }

    own, saved = history(), history()
    kept = copied(saved)
    saved["sum"] += [1.0, 2.0, 3.0]
    saved["train", 1].extend([0.25, 0.125])
    saved["best"], saved["seen"] = Best(0.125, np.ones(2)), {(1, "a"), 2}
    assert kept["sum"].tolist() == [0.0] * 3 and list(kept["train", 1]) == [0.5] and not kept["seen"]
    array, losses = own["sum"], own["train", 1]
    assert unpack(own, through_checkpoint(saved)) is own
    assert own["sum"] is array and array.tolist() == [1.0, 2.0, 3.0]
    assert own["train", 1] is losses and losses == deque([0.25, 0.125], maxlen=2)
    assert isinstance(own["best"], Best) and own["best"].loss == 0.125
    assert own["best"].per_class.tolist() == [1.0, 1.0] and own["seen"] == {(1, "a"), 2}


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


def test_a_function_of_torch_itself_is_found_again() -> None:
    """Its qualified name is within a class that no module has."""
    packed = pack(torch.tanh)
    assert packed is not None and unpack(None, packed) is torch.tanh

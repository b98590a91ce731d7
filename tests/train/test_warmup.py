"""Getting ready to join changes nothing of what the script has made."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from swell.train.collective.gradients import Gradients
from swell.train.data.sample_schedule import SampleSchedule
from swell.train.runtime.host import Task
from swell.train.runtime.warmup import _bytes_to_come, optimizer_bytes
from swell.train.sharding.shard_choice import ShardChoice, make_shard
from swell.train.state.train_state import TrainState

Make = Callable[[list[nn.Parameter]], torch.optim.Optimizer]


@pytest.mark.parametrize(
    ("make", "num_copies"),
    [
        (lambda parameters: torch.optim.SGD(parameters, lr=0.1), 0),
        (lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9), 1),
        (lambda parameters: torch.optim.Adam(parameters), 2),
    ],
)
def test_state_of_an_optimizer_is_foreseen(make: Make, num_copies: int) -> None:
    model = nn.Linear(10, 10)
    num_bytes = sum(parameter.nbytes for parameter in model.parameters())
    assert optimizer_bytes(make(list(model.parameters()))) == num_copies * num_bytes


class Blocks(nn.Module):
    """Two blocks of 100 weights each, one of them frozen, and 10 weights in none: 4 bytes each."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(10, 10, bias=False), nn.Linear(10, 10, bias=False)
        self.second.requires_grad_(False)
        self.head = nn.Parameter(torch.zeros(10))


@pytest.mark.parametrize(
    ("shard", "is_mirrored", "num_workers", "num_floats"),
    [
        # Gradients of 110, the buffer of their sum, and two numbers for each that the optimizer keeps:
        (None, False, 0, 110 + 110 + 220),
        ("optimizer", False, 1, 110 + 110 + 220),
        ("optimizer", False, 4, 110 + 110 + 55),
        ("optimizer", True, 4, 110 + 110 + 110),
        ("optimizer", True, 2, 110 + 110 + 220),
        ("optimizer", False, 0, 110 + 110),
        # 200 values of blocks, 100 gradients and 220 numbers, in place of the model's 200; and 10 of none:
        ("blocks", False, 1, 10 + 10 + 520 - 200),
        ("blocks", False, 4, 0),
        ("blocks", True, 4, 10 + 10 + 260 - 200),
        ("blocks", False, 0, 0),
    ],
)
def test_a_worker_touches_what_its_part_will_want(
    shard: str | None, is_mirrored: bool, num_workers: int, num_floats: int
) -> None:
    model = Blocks()
    optimizer = torch.optim.Adam(model.parameters())
    choice: ShardChoice = [nn.Linear] if shard == "blocks" else "optimizer"
    made = None if shard is None else make_shard(choice, model, optimizer)
    state = TrainState(model, optimizer, None, {}, shard=made)
    gradients = Gradients(model)
    task = Task(state, gradients, SampleSchedule(10, 5, False, False), 5, is_mirrored=is_mirrored)
    assert _bytes_to_come(task, num_workers) == 4 * num_floats + (
        gradients.num_bytes - 4 * 110 if shard != "blocks" else 0
    )

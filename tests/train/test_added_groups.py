"""Parameter groups that a script adds to its optimizer while it trains."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from swell.train.state.train_state import TrainState


def begun() -> tuple[nn.Sequential, torch.optim.Adam, TrainState]:
    """What a script has where it calls `elastic`: the last layer is trained."""
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    optimizer = torch.optim.Adam(model[1].parameters(), lr=0.1)
    return model, optimizer, TrainState(model, optimizer, None, {})


def give(source: TrainState, target: TrainState) -> None:
    skeleton, tensors = source.encode()
    target.load(skeleton, [tensor.clone() for tensor in tensors])


def stepped(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    model(torch.ones(4, 2)).sum().backward()
    optimizer.step()


def test_a_worker_that_joins_gets_the_groups_and_what_is_kept_for_them() -> None:
    model, optimizer, state = begun()
    optimizer.add_param_group({"params": model[0].parameters(), "lr": 0.01})
    stepped(model, optimizer)
    joined_model, joined, joined_state = begun()
    give(state, joined_state)
    for one, other in ((model, optimizer), (joined_model, joined)):
        stepped(one, other)
    assert [group["lr"] for group in joined.param_groups] == [0.1, 0.01]
    assert all(map(torch.equal, model.parameters(), joined_model.parameters()))


def test_a_script_that_adds_a_group_again_adds_nothing() -> None:
    model, optimizer, state = begun()
    optimizer.add_param_group({"params": [model[0].weight]})
    optimizer.add_param_group({"params": model[0].bias, "lr": 0.01})
    joined_model, joined, joined_state = begun()
    give(state, joined_state)
    joined.add_param_group({"params": joined_model[0].weight})
    joined.add_param_group({"params": [joined_model[0].bias]})
    assert [len(group["params"]) for group in joined.param_groups] == [2, 1, 1]
    with pytest.raises(ValueError, match="more than one parameter group"):  # torch's own rule stands
        joined.add_param_group({"params": list(joined_model[0].parameters())})


def test_parameters_of_something_else_are_refused() -> None:
    _, optimizer, _ = begun()
    with pytest.raises(ValueError, match="did not get with the model"):
        optimizer.add_param_group({"params": nn.Linear(1, 1).parameters()})

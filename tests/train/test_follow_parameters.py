"""An optimizer that has a state, loaded or of its own steps, before its model moves to another device."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from swell.train.state.optimizer_set import follow_parameters


@pytest.mark.parametrize(("options", "place_of_numbers"), [({}, "cpu"), ({"capturable": True}, "meta")])
def test_what_it_keeps_follows_and_numbers_stay_where_torch_wants_them(
    options: dict[str, Any], place_of_numbers: str
) -> None:
    parameter = nn.Parameter(torch.empty(3, device="meta"))  # a device that every machine has
    optimizer = torch.optim.Adam([parameter], lr=0.1)
    optimizer.param_groups[0].update(options)
    optimizer.state[parameter] = {
        "step": torch.tensor(3.0),
        "exp_avg": torch.ones(3),
        "history": [torch.ones(2), "a word"],  # as LBFGS has one
    }
    optimizer.state["of no parameter"] = 7  # type: ignore[index]
    follow_parameters(optimizer)
    kept = optimizer.state[parameter]
    assert kept["exp_avg"].device.type == kept["history"][0].device.type == "meta"
    assert kept["history"][1] == "a word"
    assert kept["step"].device.type == place_of_numbers
    assert optimizer.state["of no parameter"] == 7  # type: ignore[index]

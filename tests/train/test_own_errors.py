"""Arguments of `elastic` that are no such thing are named."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, TensorDataset

from swell import train


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"model": None}, "a NoneType as model"),
        ({"model": lambda x: x}, "a function as model"),
        ({"optimizer": None}, "a NoneType as optimizer"),
        ({"optimizer": "adam"}, "a str as optimizer"),
        ({"optimizer": torch.optim.SGD}, "the class SGD as optimizer"),
        ({"optimizer": {"g": 3}}, "a int as optimizer"),
        ({"optimizer": {}}, "a dict as optimizer"),
        ({"scheduler": 3}, "a int as scheduler"),
        ({"scheduler": StepLR}, "the class StepLR as scheduler"),
        ({"state": [1]}, "a list as state"),
    ],
)
def test_an_argument_that_is_no_such_thing_is_named(given: dict[str, object], name: str) -> None:
    model = nn.Linear(1, 1)
    right: dict[str, Any] = {
        "model": model,
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.1),
        "loader": DataLoader(TensorDataset(torch.zeros(4, 1)), batch_size=2),
        "steps": 1,
    }
    with pytest.raises(TypeError, match=rf"elastic\(\) was given {name}; give it"):
        train.elastic(**(right | given))

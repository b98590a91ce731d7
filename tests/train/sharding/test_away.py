"""What other workers keep of a block can be asked for its form, and for nothing else."""

from __future__ import annotations

import pytest
import torch
from swell.train.sharding.shard_choice import make_shard
from torch import nn


@pytest.fixture
def model() -> nn.Sequential:
    """Its blocks are away, as outside of their passes with several workers."""
    model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))
    make_shard([nn.Linear], model, torch.optim.Adam(model.parameters())).hold_share(2, 1)
    return model


def test_a_parameter_that_is_not_here_tells_its_form(model: nn.Sequential) -> None:
    weight = model[0].get_parameter("weight")
    assert isinstance(weight, nn.Parameter) and weight.requires_grad and weight.grad is None
    assert weight.shape == (3, 4) and weight.numel() == 12 and len(weight) == 3 and weight.nbytes == 48
    assert weight.dtype == torch.float32 and weight.device.type == "cpu" and weight in set(model.parameters())
    assert type(torch.zeros_like(weight)) is torch.Tensor
    weight.requires_grad_(False)
    assert sum(each.numel() for each in model.parameters() if each.requires_grad) == 3 + 6 + 2

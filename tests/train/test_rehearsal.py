"""What forked processes tell of a model depends on its numbers only."""

from __future__ import annotations

import torch
from torch import nn

from swell.train.runtime.rehearsal import numbers_in


def test_the_same_numbers_are_the_same_bytes_wherever_they_are_in_memory() -> None:
    one, other = (nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)) for _ in range(2))
    other.load_state_dict(one.state_dict())
    elsewhere = [torch.empty(1000) for _ in range(3)]
    for parameter in other.parameters():
        parameter.data = torch.stack([parameter.data, *(0 * parameter.data for _ in elsewhere)], -1)[..., 0]
    assert numbers_in(one.state_dict()) == numbers_in(other.state_dict())
    with torch.no_grad():
        next(other.parameters()).view(-1)[0] += 1e-7
    assert numbers_in(one.state_dict()) != numbers_in(other.state_dict())

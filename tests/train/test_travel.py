"""Everything that has a state comes through a joiner, and through a suspension, bit for bit."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils import convert_conv2d_weight_memory_format

from swell.train.state.drift import Replica
from swell.train.state.train_state import TrainState


@pytest.mark.parametrize("options", [{"fused": True}, {"foreach": True}, {}], ids=str)
def test_channels_last_stays_so_in_what_the_optimizer_keeps(options: dict[str, Any]) -> None:
    """A fused optimizer takes the moments of other elements where they lie in another order."""

    def made() -> TrainState:
        torch.manual_seed(0)
        model = convert_conv2d_weight_memory_format(nn.Conv2d(3, 5, 2), torch.channels_last)
        return TrainState(model, torch.optim.Adam(model.parameters(), 0.1, **options), None, {})

    def step(state: TrainState) -> None:
        state.model(torch.arange(48.0).reshape(1, 3, 4, 4)).sin().sum().backward()
        state.optimizers[0].step()
        state.optimizers[0].zero_grad()

    ours, theirs = made(), made()
    step(ours)
    skeleton, tensors = ours.encode()
    theirs.load(skeleton, [tensor.clone(memory_format=torch.contiguous_format) for tensor in tensors])
    step(ours)
    step(theirs)
    assert Replica(ours).checksums() == Replica(theirs).checksums()

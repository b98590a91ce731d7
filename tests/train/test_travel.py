"""Everything that has a state comes through a joiner, and through a suspension, bit for bit."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.train.fake_agent import FakeAgent
from torch import nn
from torch.nn.utils import convert_conv2d_weight_memory_format

from swell.train.state.drift import Replica
from swell.train.state.train_state import TrainState
from swell.wire import messages

TRAVELS = Path(__file__).parent / "scripts" / "travels.py"
EPOCHS = 40


@pytest.mark.slow
def test_each_part_is_what_it_would_be_in_one_process(
    start_agent: Callable[..., FakeAgent], run_plain: Callable[..., Path], tmp_path: Path
) -> None:
    plain = json.loads(run_plain("travels.py", str(EPOCHS)).read_text())
    agent = start_agent(
        total_steps=4 * EPOCHS,
        global_batch=12,
        pace_per_s=1200.0,
        checkpoint_interval_s=1e9,
        ends_when_told=True,
    )
    args = (str(tmp_path / "result.json"), str(EPOCHS))
    agent.start_ready([0, 1], TRAVELS, *args)
    agent.join([0], source=None)
    agent.wait_steps(0, 1)
    agent.join([0, 1], source=0)
    joined = agent.join([1], source=1)  # it has all from the other
    agent.wait(1, messages.Progress)
    agent.suspend()
    agent.wait(1, messages.Left)
    agent.start_ready([2, 3, 4, 5], TRAVELS, *args)
    resumed = agent.join([2, 3, 4, 5], source=None)
    assert 0 < joined < resumed < 4 * EPOCHS
    for worker in (2, 3, 4, 5):
        assert agent.exit_status(worker) == 0, agent.logs()
    ours = json.loads((tmp_path / "result.json").read_text())
    for part, expected in plain.items():
        assert ours[part] == expected, part


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

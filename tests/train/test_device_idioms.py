"""Loops as they are written for GPUs learn the same through a growth, a kill and a suspension.

`make test-gpu` runs them on a GPU, where alone there are CUDA graphs.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.train.fake_agent import DEVICE, FakeAgent

from swell.wire import messages

SCRIPT = Path(__file__).parent / "scripts" / "device_idioms.py"
EPOCHS = 4  #: of 8 steps
NAMES = [
    "compiled",
    pytest.param(
        "graphed", marks=pytest.mark.skipif(DEVICE == "cpu", reason="there are no CUDA graphs on a CPU")
    ),
    *("scaled", "fused", "fused scaled", "zeroed", "channels last", "channels last fused scaled"),
]


@pytest.mark.slow
@pytest.mark.parametrize("idiom", NAMES)
def test_what_is_learnt_does_not_depend_on_the_sizes(
    start_agent: Callable[..., FakeAgent],
    run_plain: Callable[..., Path],
    tmp_path: Path,
    idiom: str,
) -> None:
    agent = start_agent(
        total_steps=EPOCHS * 8, pace_per_s=600.0, checkpoint_interval_s=1e9, ends_when_told=True
    )
    args = (str(tmp_path / "result.json"), str(EPOCHS), idiom)
    agent.start_ready([0, 1, 2], SCRIPT, *args)
    agent.join([0], source=None)
    agent.wait_steps(0, 2)
    agent.join([1, 0, 2], source=1)
    agent.wait(1, messages.Progress, lambda message: message.num_workers == 3)
    agent.kill(1)
    broken = {worker: agent.wait(worker, messages.Broken).steps for worker in (0, 2)}
    agent.join([0, 2], source=1 if broken[2] > broken[0] else 0)
    agent.wait(0, messages.Progress, lambda message: message.num_workers == 2)
    agent.suspend()
    for worker in (0, 2):
        agent.wait(worker, messages.Left)
    agent.start_ready([3], SCRIPT, *args)
    assert 2 < agent.join([3], source=None) < EPOCHS * 8
    agent.wait(3, messages.Finished)
    assert agent.exit_status(3) == 0, agent.logs()
    ours = json.loads((tmp_path / "result.json").read_text())
    theirs = json.loads(run_plain("device_idioms.py", str(EPOCHS), idiom).read_text())
    assert ours["stayed"] and theirs["stayed"], "a graph knows parameters by their places in memory"
    assert ours["layout"] == theirs["layout"]
    assert ours["device"] == theirs["device"] == DEVICE
    assert ours["steps"] == theirs["steps"] == EPOCHS * 8
    assert ours["scale"] == theirs["scale"]
    assert ours["weights"] == pytest.approx(theirs["weights"], rel=1e-9, abs=1e-12)

"""A compiled model learns what it learns uncompiled, through resizes and a suspension at another size."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.train.fake_agent import FakeAgent

from swell.train import load_checkpoint
from swell.wire import messages

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(shutil.which("c++") is None, reason="torch.compile needs a C++ compiler"),
]
COMPILED = Path(__file__).parent / "scripts" / "compiled.py"
EPOCHS = 100


def test_it_is_resized_suspended_and_read_under_its_own_names(
    start_agent: Callable[..., FakeAgent],
    run_plain: Callable[..., Path],
    tmp_path: Path,
) -> None:
    plain = json.loads(run_plain("compiled.py", str(EPOCHS), "eager").read_text())
    agent = start_agent(
        total_steps=4 * EPOCHS,
        global_batch=24,
        pace_per_s=1200.0,
        checkpoint_interval_s=1e9,
        ends_when_told=True,
    )
    args = (str(tmp_path / "result.json"), str(EPOCHS), "dynamic", "ahead")
    agent.start_ready([0, 1], COMPILED, *args)
    agent.join([0], source=None)
    agent.wait_steps(0, 1)
    agent.join([0, 1], source=0)
    agent.wait(0, messages.Progress, lambda message: message.num_workers == 2)
    agent.suspend()
    for worker in (0, 1):
        agent.wait(worker, messages.Left)
    saved = load_checkpoint(agent.checkpoint_dir)
    assert list(saved["model"]) == plain["names"], "without what torch.compile puts before them"
    agent.start_ready([2], COMPILED, *args)
    assert agent.join([2], source=None) == saved["steps"] > 0
    assert agent.exit_status(2) == 0, agent.logs()
    ours = json.loads((tmp_path / "result.json").read_text())
    assert ours["steps"] == plain["steps"] == 4 * EPOCHS
    for step, loss in ours["losses"].items():
        assert loss == pytest.approx(plain["losses"][step], rel=0.05, abs=1e-3)

"""Mixed precision learns the same through resizes, suspensions and overflows."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.train.fake_agent import FakeAgent

from swell.wire import messages

SCALED = Path(__file__).parent / "scripts" / "scaled.py"
EPOCHS = 90
STEPS = 2 * EPOCHS
OVERFLOWS = ({2, 3}, {110, 111})  #: one step of each


def read(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text())
    return content


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["float16", "bfloat16"])
def test_all_workers_agree_on_overflows_at_any_size(
    start_agent: Callable[..., FakeAgent], run_plain: Callable[..., Path], tmp_path: Path, precision: str
) -> None:
    plain = read(run_plain("scaled.py", str(EPOCHS), precision))
    agent = start_agent(
        total_steps=STEPS,
        global_batch=24,
        pace_per_s=2400.0,
        checkpoint_interval_s=1e9,
        ends_when_told=True,
    )
    args = (str(tmp_path / "result.json"), str(EPOCHS), precision)
    agent.start_ready([0, 1, 2, 3], SCALED, *args)
    agent.join([0, 1], source=None)
    agent.wait_steps(0, 1)
    assert agent.join([1, 2, 3, 0], source=1) < min(OVERFLOWS[1])
    agent.wait(1, messages.Progress, lambda message: message.steps > max(OVERFLOWS[1]))
    agent.suspend()
    for worker in range(4):
        agent.wait(worker, messages.Left)
    agent.start_ready([4], SCALED, *args)
    assert agent.join([4], source=None) > max(OVERFLOWS[1])
    assert agent.exit_status(4) == 0, agent.logs()
    ours = read(tmp_path / "result.json")
    assert ours["steps"] == plain["steps"] == STEPS
    assert ours["weights"] == plain["weights"]
    for step, scale in ours["scales"].items():
        assert scale == plain["scales"][step]
    if precision != "bfloat16":
        scales = [plain["scales"][str(step)] for step in range(STEPS)]
        halved = [step for step in range(1, STEPS) if scales[step] < scales[step - 1]]
        assert [len(pair.intersection(halved)) for pair in OVERFLOWS] == [1, 1] and len(halved) == 2
        assert any(later > earlier for earlier, later in pairwise(scales)), "it grew"

"""Scripts in the idioms of others learn with a divided state what one process learns."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.train.curve_runs import CURVE
from tests.train.fake_agent import FakeAgent

from swell.wire import messages

IDIOMS, EPOCHS = CURVE.with_name("divided_idioms.py"), 3


IDIOM_NAMES = [
    *("tied", "checkpointed", "checkpointed within", "reentrant", "retried"),
    *("shared", "frozen", "lora", "momentum", "scalar", "complex"),
]
#: With mirrors workers do the same and more: one of the idioms shows it, and the others take their time.
CASES = [
    *((idiom, divided) for idiom in IDIOM_NAMES for divided in ("optimizer", "blocks")),
    ("checkpointed within", "mirrors"),
    *(
        pytest.param(idiom, "mirrors", marks=pytest.mark.soak)
        for idiom in IDIOM_NAMES
        if idiom != "checkpointed within"
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("idiom", "divided"), CASES)
def test_what_is_learnt_does_not_depend_on_the_sizes(
    start_agent: Callable[..., FakeAgent],
    run_plain: Callable[..., Path],
    tmp_path: Path,
    idiom: str,
    divided: str,
) -> None:
    agent = start_agent(
        total_steps=EPOCHS * 8, pace_per_s=600.0, checkpoint_interval_s=1e9, ends_when_told=True
    )
    agent.start_ready([0, 1, 2], IDIOMS, str(tmp_path / "result.json"), str(EPOCHS), idiom, divided)
    agent.join([0], source=None)
    agent.wait_steps(0, 2)
    agent.join([0, 1, 2], source=0)
    agent.wait(0, messages.Progress, lambda message: message.num_workers == 3)
    agent.join([2, 1], source=2)
    for worker in (1, 2):
        agent.wait(worker, messages.Finished)
        assert agent.exit_status(worker) == 0, agent.logs()
    ours = json.loads((tmp_path / "result.json").read_text())
    theirs = json.loads(run_plain("divided_idioms.py", str(EPOCHS), idiom, divided).read_text())
    assert ours["steps"] == theirs["steps"] == EPOCHS * 8
    assert ours["was_away"] == (divided != "optimizer") and not theirs["was_away"]
    assert ours["weights"] == pytest.approx(theirs["weights"], rel=1e-8, abs=1e-11)

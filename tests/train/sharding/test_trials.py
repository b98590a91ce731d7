"""Trial runs of a script whose optimizer's state is to be divided."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.train.curve_runs import CURVE
from tests.train.fake_agent import FakeAgent
from tests.train.test_modes import NUM_PARAMETERS

from swell.wire import messages

MOMENTS_BYTES = 2 * 8 * (NUM_PARAMETERS - 3)  #: of all parameters with a gradient, in float64


@pytest.mark.slow
@pytest.mark.parametrize(
    ("word", "divided_bytes"), [("shard", MOMENTS_BYTES), ("blocks", MOMENTS_BYTES * 3 // 2)]
)
@pytest.mark.parametrize("least_workers", [1, 3])
def test_a_trial_tells_the_whole_state_and_holds_what_one_worker_will(
    start_agent: Callable[..., FakeAgent], tmp_path: Path, least_workers: int, word: str, divided_bytes: int
) -> None:
    agent = start_agent(mode="profile", total_steps=None, local_batches=(4, 8), least_workers=least_workers)
    agent.start(0, CURVE, str(tmp_path / "result.json"), "3", word)
    profiled = agent.wait(0, messages.Profiled)
    assert profiled.divided_bytes == pytest.approx(divided_bytes, rel=0.1)  # a parameter has none
    assert profiled.state_bytes == pytest.approx(MOMENTS_BYTES + 8 * NUM_PARAMETERS, rel=0.1)
    assert not profiled.has_mirrors


@pytest.mark.parametrize("word", ["mirrors", "blocks"])
def test_a_group_of_a_trial_makes_its_steps_as_the_job_will(
    start_agent: Callable[..., FakeAgent], tmp_path: Path, word: str
) -> None:
    agent = start_agent(mode="group", local_batches=(3,), group_steps=4)
    agent.start_ready([0, 1], CURVE, str(tmp_path / "result.json"), "3", word)
    agent.regroup([0, 1], source=None)
    assert agent.wait(0, messages.GroupStepped).step_s > 0.0
    assert [agent.exit_status(worker) for worker in (0, 1)] == [0, 0]


@pytest.mark.parametrize(
    ("habit", "told"),
    [
        ("average", "an average of weights"),
        ("functional", "'blocks.0.weight'"),
        ("gradient", "uses the gradient of 'blocks.0.weight'"),
        ("zeroed between early", "takes it away"),
        ("loaded at once", "load or initialise weights before elastic()"),
        ("state_dict", "read the whole model from a checkpoint"),
        ("state saved", "the script uses optimizer.state between steps"),
    ],
)
def test_a_script_that_reads_what_will_not_be_there_is_told(
    start_agent: Callable[..., FakeAgent], habit: str, told: str
) -> None:
    """At one worker it would be there: only so is it found before the job has several."""
    agent = start_agent(mode="profile", total_steps=None, local_batches=(4, 8))
    agent.start(0, CURVE.with_name("shard_habits.py"), habit)
    assert agent.exit_status(0) == 1
    assert told in agent.logs()


@pytest.mark.parametrize("habit", ["none", "alone", "zeroed before", "zeroed after", "in place"])
def test_a_script_that_reads_none_is_tried_as_any(start_agent: Callable[..., FakeAgent], habit: str) -> None:
    agent = start_agent(mode="profile", total_steps=None, local_batches=(4, 8))
    agent.start(0, CURVE.with_name("shard_habits.py"), habit)
    agent.wait(0, messages.Profiled, lambda profiled: not profiled.goes_on)
    assert agent.exit_status(0) == 0, agent.logs()


@pytest.mark.slow
@pytest.mark.parametrize("divided", ["optimizer", "blocks", "mirrors"])
def test_sizes_are_compared_as_those_of_any_script(
    start_agent: Callable[..., FakeAgent], tmp_path: Path, divided: str
) -> None:
    agent = start_agent(mode="profile", total_steps=None, local_batches=(4, 8), compares=True)
    agent.start(
        0, CURVE.with_name("divided_idioms.py"), str(tmp_path / "result.json"), "300", "lora", divided
    )
    profiled = agent.wait(0, messages.Profiled, lambda profiled: not profiled.goes_on)
    assert profiled.findings == []
    assert agent.exit_status(0) == 0, agent.logs()

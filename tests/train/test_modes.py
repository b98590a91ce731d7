"""Trial runs and the measurement of all-reduce."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.train.fake_agent import FakeAgent

from swell.wire import messages

CURVE = Path(__file__).parent / "scripts" / "curve.py"
NUM_PARAMETERS = 5 * 16 + 16 + 16 + 1 + 3


def test_a_trial_measures_each_batch_size_and_exits(
    start_agent: Callable[..., FakeAgent], tmp_path: Path
) -> None:
    pace_per_s = 1000.0
    agent = start_agent(mode="profile", total_steps=None, local_batches=(1, 8, 100), pace_per_s=pace_per_s)
    agent.start(0, CURVE, str(tmp_path / "result.json"), "3", "metric")
    profiled = agent.wait(0, messages.Profiled)
    assert agent.exit_status(0) == 0
    assert list(profiled.compute_s) == [1, 8, 100]
    for size, compute_s in profiled.compute_s.items():
        assert size / pace_per_s <= compute_s < size / pace_per_s + 0.5
    assert profiled.samples_per_epoch == 45
    assert profiled.grad_bytes >= 8 * NUM_PARAMETERS
    assert profiled.state_bytes >= 3 * 8 * (NUM_PARAMETERS - 3)  # Adam's two moments are there by now
    assert not (tmp_path / "result.json").exists()
    assert len(agent.all_said(messages.Ready)) == 1  # so that the agent knows how long the start took


def test_a_trial_of_a_script_that_leaves_its_loop_tells_of_the_steps_it_made(
    start_agent: Callable[..., FakeAgent], tmp_path: Path
) -> None:
    batches = (1, 2, 3, 4, 5, 8, 16, 32)  # 22 steps of each, at most
    agent = start_agent(mode="profile", total_steps=None, local_batches=batches, pace_per_s=1000.0)
    agent.start(0, CURVE, str(tmp_path / "result.json"), "3", "leave")  # after 90 steps
    compute_s = agent.wait(0, messages.Profiled).compute_s
    assert tuple(compute_s)[:5] == batches[:5]
    assert all(size / 1000 <= step_s < size / 1000 + 0.5 for size, step_s in compute_s.items())


@pytest.mark.slow
def test_a_trial_goes_on_to_what_the_script_does_after_an_epoch(
    start_agent: Callable[..., FakeAgent], tmp_path: Path
) -> None:
    agent = start_agent(mode="profile", total_steps=8, local_batches=(6, 3), pace_per_s=1000.0)
    agent.start(0, CURVE.with_name("evaluates.py"), str(tmp_path / "diary"), "0.3")
    last = agent.wait(0, messages.Profiled, lambda message: message.between_s is not None)
    assert agent.exit_status(0) == 0
    first, second = (said for _, said in agent.all_said(messages.Profiled))
    assert (first.goes_on, first.between_s) == (True, None)
    assert second == last and not second.goes_on and second.compute_s == first.compute_s
    assert last.between_s is not None and 0.3 <= last.between_s < 1.5
    epochs = (tmp_path / "diary").read_text().split()
    assert epochs == ["0"], "it is cut short, there is no second one, and what is only tried writes nothing"


def test_a_run_tells_what_was_between_its_epochs_and_leaves_it_out_of_its_steps_and_pauses(
    start_agent: Callable[..., FakeAgent], tmp_path: Path
) -> None:
    """Two workers, and a third after the second epoch."""
    agent = start_agent(total_steps=40, pace_per_s=300.0)
    agent.start_ready([0, 1], CURVE.with_name("evaluates.py"), str(tmp_path / "diary"), "0.25")
    agent.join([0, 1], source=None)
    agent.wait_steps(0, 17)
    agent.start_ready([2], CURVE.with_name("evaluates.py"), str(tmp_path / "diary"), "0.25")
    agent.join([0, 1, 2], source=0)
    agent.wait(0, messages.Finished)
    told = [said for worker, said in agent.all_said(messages.Progress) if worker == 0]
    ends = [said.between for said in told if said.between is not None]
    assert 3 <= sum(end.num_epochs for end in ends) <= 4, "of the last ones the run's end may come first"
    for end in ends:
        assert end.num_steps == 8 * end.num_epochs
        assert end.time_s == pytest.approx(0.25 * end.num_epochs, abs=0.1)
    assert all(said.step_s < 0.1 for said in told if said.step_s is not None)
    assert [said for worker, said in agent.all_said(messages.Progress) if worker != 0] == []


def test_calibration_times_an_allreduce_by_bytes(start_agent: Callable[..., FakeAgent]) -> None:
    agent = start_agent(mode="calibrate")
    agent.start_ready([0, 1], "swell.train.runtime.trial_run:calibrate")
    agent.join([0, 1], source=None)
    seconds = agent.wait(0, messages.Calibrated).allreduce_s
    assert min(seconds) == 1_000
    assert max(seconds) == 30_000_000
    assert 0 < seconds[1_000] < seconds[30_000_000]
    assert [agent.exit_status(worker) for worker in (0, 1)] == [0, 0]
    assert [worker for worker, _ in agent.all_said(messages.Calibrated)] == [0]


def test_a_trial_of_a_deterministic_script_measures_as_many_shards_as_a_worker_would_hold(
    start_agent: Callable[..., FakeAgent], tmp_path: Path
) -> None:
    agent = start_agent(mode="profile", total_steps=None, global_batch=12, local_batches=(1, 3, 12))
    agent.start(0, CURVE.with_name("same.py"), str(tmp_path), "3", "deterministic")
    assert list(agent.wait(0, messages.Profiled).compute_s) == [1, 3, 12]
    diary = tmp_path / f"diary-{agent.processes[0].pid}"
    lines = [json.loads(line) for line in diary.read_text().splitlines()]
    sizes = [len(line["ids"]) for line in lines if "computed" in line]
    assert sizes[0] == 1
    assert sizes[-8:] == [1, 2, 1, 2, 1, 2, 1, 2]  # eight shards of twelve samples

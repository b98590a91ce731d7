"""Real workers that grow, shrink, lose a member and are suspended learn what a single process learns."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from tests.eventually import PATIENCE_S
from tests.train.curve_runs import CURVE, EPOCHS, PACE_PER_S, assert_same_learning, finish
from tests.train.fake_agent import FakeAgent

from swell.wire import messages
from swell.wire.reports import value_of


@pytest.mark.parametrize("spans_hosts", [False, True])
def test_grows_from_one_to_four(agent: FakeAgent, plain: Path, tmp_path: Path, spans_hosts: bool) -> None:
    agent.spans_hosts = spans_hosts
    args = (str(tmp_path / "result.json"), str(EPOCHS))
    agent.start_ready([0, 1, 2, 3], CURVE, *args)
    assert agent.join([0], source=None) == 0
    agent.wait_steps(0, 1)
    first = agent.join([0, 1], source=0)
    agent.wait(0, messages.Progress, lambda message: message.num_workers == 2)
    second = agent.join([0, 1, 2, 3], source=1)
    finish(agent, [0, 1, 2, 3])
    assert 0 < first < second < EPOCHS * 8
    assert_same_learning(tmp_path / "result.json", plain)


def test_shrinks_from_four_to_one(agent: FakeAgent, plain: Path, tmp_path: Path) -> None:
    args = (str(tmp_path / "result.json"), str(EPOCHS))
    agent.start_ready([0, 1, 2, 3], CURVE, *args)
    agent.join([0, 1, 2, 3], source=None)
    agent.wait_steps(0, 1)
    steps = agent.join([2], source=2)  # the survivor was not even rank 0
    for worker in (0, 1, 3):
        assert agent.exit_status(worker) == 143
        agent.wait(worker, messages.Left)
    finish(agent, [2])
    assert 0 < steps < EPOCHS * 8
    assert_same_learning(tmp_path / "result.json", plain)


@pytest.mark.parametrize(("victim", "spans_hosts"), [(0, False), (2, False), (0, True), (2, True)])
def test_goes_on_from_the_step_in_flight(
    agent: FakeAgent, plain: Path, tmp_path: Path, victim: int, spans_hosts: bool
) -> None:
    agent.spans_hosts = spans_hosts
    args = (str(tmp_path / "result.json"), str(EPOCHS))
    agent.start_ready([0, 1, 2], CURVE, *args)
    agent.join([0, 1, 2], source=None)
    agent.wait_steps(0, 1)
    agent.kill(victim)
    survivors = [worker for worker in (0, 1, 2) if worker != victim]
    steps = {worker: agent.wait(worker, messages.Broken).steps for worker in survivors}
    source = max(survivors, key=steps.__getitem__)
    assert agent.join(survivors, source=source) == steps[source] >= 1
    finish(agent, survivors)
    assert_same_learning(tmp_path / "result.json", plain)


def test_suspended_job_goes_on_at_another_size(agent: FakeAgent, plain: Path, tmp_path: Path) -> None:
    args = (str(tmp_path / "result.json"), str(EPOCHS), "load")
    agent.start_ready([0, 1], CURVE, *args)
    agent.join([0, 1], source=None)
    agent.wait_steps(0, 1)
    agent.suspend()
    saved = agent.wait(0, messages.CheckpointSaved)
    assert Path(saved.path).parent == agent.checkpoint_dir
    for worker in (0, 1):
        agent.wait(worker, messages.Left)
        assert agent.exit_status(worker) == 143
    agent.start_ready([2, 3, 4], CURVE, *args)
    assert agent.join([2, 3, 4], source=None) == saved.steps > 0
    finish(agent, [2, 3, 4])
    assert_same_learning(tmp_path / "result.json", plain)


@pytest.mark.slow
def test_loading_ahead_survives_a_resize_and_ends_with_its_worker(
    agent: FakeAgent, plain: Path, tmp_path: Path
) -> None:
    args = (str(tmp_path / "result.json"), str(EPOCHS), "load")
    agent.start_ready([0, 1], CURVE, *args)
    agent.join([0], source=None)
    agent.wait_steps(0, 1)
    assert agent.join([0, 1], source=0) > 0
    agent.wait(0, messages.Progress, lambda message: message.num_workers == 2)
    loaders = psutil.Process(agent.processes[1].pid).children()
    assert len(loaders) == 2
    agent.kill(1)
    gone, _ = psutil.wait_procs(loaders, timeout=PATIENCE_S)
    assert len(gone) == 2
    agent.wait(0, messages.Broken)
    agent.join([0], source=0)
    finish(agent, [0])
    assert_same_learning(tmp_path / "result.json", plain)


def test_suspend_that_cannot_save_is_off(start_agent: Callable[..., FakeAgent], tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("no folder")
    agent = start_agent(
        total_steps=60,
        pace_per_s=PACE_PER_S,
        checkpoint_dir=str(blocked / "checkpoints"),
        ends_when_told=True,
    )
    agent.start_ready([0, 1], CURVE, str(tmp_path / "result.json"), "10")
    agent.join([0, 1], source=None)
    agent.wait_steps(0, 1)
    agent.suspend()
    assert str(blocked) in agent.wait(0, messages.SaveFailed, lambda failed: not failed.is_behind).message
    for worker in (0, 1):
        assert agent.wait(worker, messages.Finished).steps == 60
        assert agent.exit_status(worker) == 0


def test_a_save_that_failed_behind_training_is_told_with_the_step_that_it_was_of(
    start_agent: Callable[..., FakeAgent], tmp_path: Path
) -> None:
    """Who hears of many of them tells them apart from other failures, though training has gone on since."""
    blocked = tmp_path / "file"
    blocked.write_text("no folder")
    agent = start_agent(
        total_steps=60, pace_per_s=PACE_PER_S, checkpoint_dir=str(blocked), checkpoint_interval_s=0.01
    )
    agent.start_ready([0], CURVE, str(tmp_path / "result.json"), "10")
    agent.join([0], source=None)
    assert agent.wait(0, messages.Finished).steps == 60
    failed = [said for _, said in agent.all_said(messages.SaveFailed)]
    assert any(said.is_behind for said in failed)
    for said in failed:
        assert said.is_behind or said.steps == 60, "the end alone waits for its save"
        assert said.message.startswith(f"no checkpoint at step {said.steps} in {blocked}: ")


def test_progress_tells_speed_and_the_pause_of_a_resize(agent: FakeAgent, tmp_path: Path) -> None:
    args = (str(tmp_path / "result.json"), str(EPOCHS))
    agent.start_ready([0, 1], CURVE, *args)
    generation = agent.regroup([0], source=None)
    first = agent.wait(0, messages.Progress)
    assert (first.generation, first.steps, first.pause_s) == (generation, 1, None)
    steady = agent.wait(0, messages.Progress, lambda message: message.step_s is not None)
    assert steady.step_s is not None and steady.step_s >= 0.9 * 6 / PACE_PER_S * 7.5 / 8
    steps = agent.join([0, 1], source=0)
    after = agent.wait(0, messages.Progress, lambda message: message.num_workers == 2)
    assert after.steps == steps + 1
    assert after.pause_s is not None and 0 < after.pause_s < 5


def test_all_stop_at_the_step_after_the_target_is_met(
    start_agent: Callable[..., FakeAgent], tmp_path: Path
) -> None:
    target = messages.EarlyStop(name="loss", value=0.2, at_least=False)
    agent = start_agent(total_steps=100_000, target=target)
    agent.start_ready([0, 1, 2], CURVE, str(tmp_path / "result.json"), "9999", "metric")
    agent.join([0, 1, 2], source=None)
    finished = [agent.wait(worker, messages.Finished) for worker in (0, 1, 2)]
    assert len({message.steps for message in finished}) == 1
    assert finished[0].steps % 8 == 0  # the step that carried the news changed nothing
    assert value_of(agent.metrics_told()["loss"]) <= 0.2


@pytest.mark.slow
def test_the_environment_names_the_group_as_torchrun_would(start_agent: Callable[..., FakeAgent]) -> None:
    agent = start_agent(
        total_steps=200, pace_per_s=PACE_PER_S, checkpoint_interval_s=1e9, ends_when_told=True
    )
    agent.start_ready([0, 1], CURVE.with_name("names.py"))
    agent.join([0], source=None)
    agent.wait_steps(0, 1)
    agent.join([0, 1], source=0)
    for worker in (0, 1):
        agent.wait(worker, messages.Finished)
        assert agent.exit_status(worker) == 0, agent.logs()
    unknown = "- - - - - - - -"
    first, second = [said.address.replace(":", " ") for _, said in agent.all_said(messages.Bound)]
    assert first != second
    assert agent.log(0).read_text().splitlines() == [unknown, f"0 0 1 1 0 {first} 0", f"0 0 2 2 0 {second} 1"]
    assert agent.log(1).read_text().splitlines() == [unknown, f"1 1 2 2 0 {second} 1"]

"""Replicas that drift apart are found, named, and made equal or not, as was asked for."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.train.fake_agent import FakeAgent

from swell import train
from swell.wire import messages
from swell.wire.checkpoint_files import steps_in

DRIFTS = Path(__file__).parent / "scripts" / "drifts.py"
NUM_STEPS = 80

RATE = "the learning rate of parameter group 0 (0.weight and "
HEAD = "2.weight and 1 more on ranks 1 and 2"


def agent_of(start_agent: Callable[..., FakeAgent], on_drift: str) -> FakeAgent:
    made = start_agent(total_steps=NUM_STEPS, pace_per_s=1000.0, ends_when_told=True, on_drift=on_drift)
    made.may_drift = True
    return made


@pytest.fixture
def agent(start_agent: Callable[..., FakeAgent]) -> FakeAgent:
    return agent_of(start_agent, "heal")


def begin(agent: FakeAgent, folder: Path, mistake: str) -> None:
    """Two workers, and a third that comes when they have trained for a while."""
    folder.mkdir()
    agent.start_ready([0, 1, 2], DRIFTS, str(folder), mistake)
    agent.join([0, 1], source=None)
    agent.wait_steps(0, 1)
    agent.join([0, 1, 2], source=0)


def end(agent: FakeAgent) -> list[messages.DriftFound]:
    """What was said of drifts, by the leader alone."""
    for worker in (0, 1, 2):
        agent.wait(worker, messages.Finished)
        assert agent.exit_status(worker) == 0, agent.logs()
    said = agent.all_said(messages.DriftFound)
    assert all(worker == 0 for worker, _ in said)
    return [drifted for _, drifted in said]


def num_apart(folder: Path) -> int:
    """Epochs at whose end not all workers had the same."""
    epochs = {path.stem for path in folder.iterdir()}
    assert len(epochs) == 10
    return sum(len({path.read_text() for path in folder.glob(f"{epoch}.*")}) > 1 for epoch in epochs)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mistake", "told", "remedy"),
    [
        ("scheduler", RATE, "Give the scheduler to elastic(scheduler=...)"),
        ("plateau", RATE, "step it with what run.backward() returns"),
        ("counter", RATE, "compute a value of your own from run.steps"),
        ("momentum", "momentum of parameter group 0", "0.9 on rank 0, 0.8 on rank 1, 0.7 on rank 2. "),
    ],
)
def test_hyperparameters_that_differ_change_no_parameter(
    agent: FakeAgent, tmp_path: Path, mistake: str, told: str, remedy: str
) -> None:
    begin(agent, tmp_path / "hashes", mistake)
    drifted = end(agent)
    assert drifted[0].num == 1 and drifted[0].step < drifted[-1].step
    assert all(each.is_healed and each.message.startswith(told) for each in drifted), drifted
    assert remedy in drifted[-1].message
    assert num_apart(tmp_path / "hashes") == 0


def test_a_scheduler_that_elastic_steps_and_the_script_as_well_is_told_and_refused(
    agent: FakeAgent, tmp_path: Path
) -> None:
    (tmp_path / "hashes").mkdir()
    agent.start_ready([0, 1], DRIFTS, str(tmp_path / "hashes"), "known")
    agent.join([0, 1], source=None)
    assert agent.wait(0, messages.DriftFound).message.startswith(RATE)
    assert "the script calls scheduler.step()" in agent.wait(0, messages.Failed).message


def test_parameters_that_differ_are_named_and_made_equal_again_and_again(
    agent: FakeAgent, tmp_path: Path
) -> None:
    begin(agent, tmp_path / "hashes", "second")
    drifted = end(agent)
    assert all(each.is_healed for each in drifted)
    assert 17 in {each.step for each in drifted} <= {1, 17, 33, 49, 65, 80}
    assert drifted[-1].message.startswith(f"{HEAD} differ from rank 0's, with the same hyperparameters. ")
    assert "give it to elastic(state={'second': ...})" in drifted[-1].message
    assert num_apart(tmp_path / "hashes") > 0, "between two comparisons it is as the script has it"


def test_what_is_only_warned_of_stays_as_it_is(start_agent: Callable[..., FakeAgent], tmp_path: Path) -> None:
    agent = agent_of(start_agent, "warn")
    begin(agent, tmp_path / "hashes", "scheduler")
    drifted = end(agent)
    assert drifted and not any(each.is_healed for each in drifted)
    assert drifted[0].message.startswith(RATE)
    assert num_apart(tmp_path / "hashes") > 0


def test_a_state_that_cannot_be_sent_is_told_of_and_training_goes_on(
    agent: FakeAgent, tmp_path: Path
) -> None:
    (tmp_path / "hashes").mkdir()
    agent.start_ready([0, 1], DRIFTS, str(tmp_path / "hashes"), "unsendable")
    agent.join([0, 1], source=None)
    for worker in (0, 1):
        assert agent.wait(worker, messages.Finished).steps == NUM_STEPS
    drifted = [said for _, said in agent.all_said(messages.DriftFound)]
    assert drifted and not any(each.is_healed for each in drifted)


def test_a_script_that_does_as_the_warnings_say_does_not_drift(
    start_agent: Callable[..., FakeAgent], tmp_path: Path
) -> None:
    agent = agent_of(start_agent, "fail")
    begin(agent, tmp_path / "hashes", "mended")
    assert not end(agent)
    assert num_apart(tmp_path / "hashes") == 0


def test_a_job_may_fail_instead_with_the_leaders_state_saved(
    start_agent: Callable[..., FakeAgent], tmp_path: Path
) -> None:
    agent = start_agent(total_steps=NUM_STEPS, on_drift="fail")
    agent.start_ready([0, 1], DRIFTS, str(tmp_path), "plateau")
    agent.join([0, 1], source=None)
    for worker in (0, 1):
        told = agent.wait(worker, messages.Failed).message.splitlines()[-1]
        step = re.search(
            r"DriftError: the replicas of the workers differ in step (\d+): the learning rate", told
        )
        assert step is not None and int(step[1]) > 1
        assert [steps_in(path) for path in agent.checkpoint_dir.iterdir()] == [int(step[1]) - 1], "safe first"
        saved = train.load_checkpoint(agent.checkpoint_dir)["model"]
        assert saved["3.num_batches_tracked"] == int(step[1]) - 1, "the step whose pass was made is undone"
    assert [worker for worker, _ in agent.all_said(messages.CheckpointSaved)] == [0]

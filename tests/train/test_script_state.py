"""What a script counts goes on with the job: in run.state, or found in its variables."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from tests.eventually import PATIENCE_S
from tests.train.fake_agent import FakeAgent, fork_script
from tests.train.stateful_scripts import KEPT, LOST, RIGHT, write_script

from swell.script_facts import ScriptFinding
from swell.wire import environ, messages

StartAgent = Callable[..., FakeAgent]
STEPS = 40


def plain(script: Path, folder: Path) -> list[float]:
    """The weights that a process which is never disturbed comes to."""
    process = fork_script(script, (str(folder / "plain.json"),), folder / "plain.log", {})
    process.join(PATIENCE_S)
    assert process.exitcode == 0, (folder / "plain.log").read_text()
    return weights_in(folder / "plain.json")


def weights_in(path: Path) -> list[float]:
    told = json.loads(path.read_text())
    assert told["steps"] == STEPS
    weights: list[float] = told["weights"]
    return weights


def comes_again(
    agent: FakeAgent, script: Path, folder: Path, workers: Sequence[int], num_steps: int = 1
) -> int:
    """Workers that train alone, one after the other, each until it is told to save and leave; steps made."""
    reached = 0
    for worker in workers:
        agent.start_ready([worker], script, str(folder / "result.json"))
        assert agent.join([worker], source=None) == reached
        agent.wait_steps(worker, reached + num_steps)
        agent.suspend()
        reached = agent.wait(worker, messages.CheckpointSaved).steps
        assert agent.exit_status(worker) == 143
    return reached


def ends_alike(agent: FakeAgent, script: Path, folder: Path, members: list[int]) -> None:
    for member in members:
        agent.wait(member, messages.Finished)
        assert agent.exit_status(member) == 0, agent.logs()
    assert weights_in(folder / "result.json") == pytest.approx(plain(script, folder), rel=1e-9, abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("body", RIGHT.values(), ids=[*RIGHT])
def test_a_job_that_goes_on_twice_learns_the_same(body: str, start_agent: StartAgent, tmp_path: Path) -> None:
    """By new processes, from the checkpoint; on one worker, for dropout differs between sizes."""
    script = write_script(tmp_path, body)
    agent = start_agent(total_steps=STEPS, pace_per_s=600.0, ends_when_told=True)
    reached = comes_again(agent, script, tmp_path, range(2))
    agent.start_ready([2], script, str(tmp_path / "result.json"))
    assert agent.join([2], source=None) == reached
    ends_alike(agent, script, tmp_path, [2])


@pytest.mark.slow
@pytest.mark.parametrize("body", KEPT.values(), ids=[*KEPT])
def test_a_job_that_goes_on_twice_grows_and_loses_a_worker_learns_the_same(
    body: str, start_agent: StartAgent, tmp_path: Path
) -> None:
    script = write_script(tmp_path, body)
    agent = start_agent(total_steps=STEPS, pace_per_s=600.0, ends_when_told=True)
    reached = comes_again(agent, script, tmp_path, range(2), 9)
    agent.start_ready([2, 3, 4], script, str(tmp_path / "result.json"))
    assert agent.join([2], source=None) == reached
    agent.wait_steps(2, reached + 2)
    agent.join([2, 3, 4], source=2)
    agent.wait(2, messages.Progress, lambda told: told.num_workers == 3)
    agent.kill(2)
    steps = {worker: agent.wait(worker, messages.Broken).steps for worker in (3, 4)}
    source = max(steps, key=steps.__getitem__)
    agent.join([3, 4], source=source)
    ends_alike(agent, script, tmp_path, [3, 4])


def found_in(script: Path, start_agent: StartAgent, folder: Path) -> list[ScriptFinding]:
    agent = start_agent(mode="profile", total_steps=STEPS, local_batches=(2, 6), compares=True, resumes=True)
    agent.start(0, script, str(folder / "result.json"))
    assert agent.exit_status(0) == 0, agent.logs()
    return agent.all_said(messages.Profiled)[-1][1].findings


@pytest.mark.slow
@pytest.mark.parametrize("body", [*KEPT.values(), *RIGHT.values()], ids=[*KEPT, *RIGHT])
def test_a_trial_run_holds_nothing_against_a_right_script(
    body: str, start_agent: StartAgent, tmp_path: Path
) -> None:
    found = found_in(write_script(tmp_path, body), start_agent, tmp_path)
    assert [finding for finding in found if finding.holds] == []


@pytest.mark.slow
@pytest.mark.parametrize(("text", "body"), LOST.values(), ids=[*LOST])
def test_a_trial_run_names_what_begins_again(
    text: str, body: str, start_agent: StartAgent, tmp_path: Path
) -> None:
    script = write_script(tmp_path, body)
    (finding,) = found_in(script, start_agent, tmp_path)
    assert finding.name == "script-state" and finding.holds
    assert "run.s" in finding.text and "a file" in finding.text
    file, line = finding.place.rsplit(":", 1)
    assert file == str(script)
    assert text in script.read_text().splitlines()[int(line) - 1]


FAILS = """
def watching():
    most = 0.0
    while True:
        num_steps = yield
        assert num_steps >= most, "a step comes again"
        most = num_steps

watch = watching()
next(watch)
run = train.elastic(model, optimizer, loader, epochs=5)
for epoch in run.epochs():
    for a, b in run.batches():
        watch.send(float(sum(kept["step"] for kept in optimizer.state.values())))
        fit_batch(run, a, b)
"""


@pytest.mark.slow
def test_a_loop_that_fails_when_it_goes_on_is_found(start_agent: StartAgent, tmp_path: Path) -> None:
    agent = start_agent(mode="profile", total_steps=STEPS, local_batches=(6,), compares=True, resumes=True)
    agent.start(0, write_script(tmp_path, FAILS), str(tmp_path / "result.json"))
    finding = agent.wait(0, messages.NotCompared).finding
    assert finding.holds and "goes on in a new process fails: AssertionError: a step comes" in finding.text
    assert agent.exit_status(0) == environ.EXIT_STOPPED

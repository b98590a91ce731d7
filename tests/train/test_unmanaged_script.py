"""Scripts that know nothing of Swell are counted, and stopped in the same step on all workers."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
import torch
from tests.eventually import PATIENCE_S
from tests.train.fake_agent import TOKEN, FakeAgent, fork_script, until

from swell.train.link.agent_link import ObserverLine
from swell.train.runtime.unmanaged_script import StepCounter, own_count
from swell.wire import environ, messages
from swell.wire.lease_end import Lease

FOREIGN = Path(__file__).parent / "scripts" / "foreign.py"
PLAIN = Path(__file__).parent / "scripts" / "plain.py"
LIBRARY_DRIVEN = Path(__file__).parent / "scripts" / "library_driven.py"
IDLES = Path(__file__).parent / "scripts" / "idles.py"
LIBRARY = """
import torch.distributed

def form():
    torch.distributed.init_process_group("gloo")

def step(optimizer):
    optimizer.step()
"""
FOR_EVER = "100000000"


def start(agent: FakeAgent, num_workers: int, *args: str, script: Path = FOREIGN) -> None:
    agent.observes = True
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    for rank in range(num_workers):
        names = {
            environ.RANK: str(rank),
            environ.WORLD_SIZE: str(num_workers),
            environ.MASTER_ADDR: "127.0.0.1",
            environ.MASTER_PORT: str(port),
            environ.OBSERVER: agent.address,
            environ.TOKEN: TOKEN,
            environ.WORKER: str(rank),
            **agent.environ,
        }
        agent.processes[rank] = fork_script(script, args, agent.log(rank), names)


def pid_of(agent: FakeAgent, rank: int) -> int:
    pid = agent.processes[rank].pid
    assert pid is not None
    return pid


def await_training(agent: FakeAgent) -> messages.Stepped:
    """All have made a step: one that has not would leave at once."""
    return agent.wait(0, messages.Stepped, lambda message: message.steps > 2)


def ask_to_stop(agent: FakeAgent) -> None:
    for rank in agent.processes:
        os.kill(pid_of(agent, rank), environ.STOP_AT_STEP)


def last_lines(agent: FakeAgent) -> set[str]:
    return {agent.log(rank).read_text().splitlines()[-1] for rank in agent.processes}


def test_its_steps_are_told_as_its_optimizer_counts_them(start_agent: Callable[..., FakeAgent]) -> None:
    agent = start_agent()
    start(agent, 2, "adam", "40", FOR_EVER)
    told = await_training(agent)
    assert told.num_workers == 2
    assert told.own_steps == told.steps + 40
    assert told.step_s is not None and 0 < told.step_s < 30
    assert not [worker for worker, _ in agent.all_said(messages.Stepped) if worker != 0]


@pytest.mark.parametrize(("kind", "own_steps"), [("adam", 43), ("sgd", None)])
def test_the_last_step_is_told_however_soon_it_follows(
    start_agent: Callable[..., FakeAgent], kind: str, own_steps: int | None
) -> None:
    agent = start_agent()
    start(agent, 1, kind, "40", "3")
    assert agent.exit_status(0) == 0, agent.logs()
    told = [said for _, said in agent.all_said(messages.Stepped)]
    assert (told[-1].steps, told[-1].own_steps) == (3, own_steps)


@pytest.mark.slow
def test_all_stop_after_the_same_step(start_agent: Callable[..., FakeAgent]) -> None:
    agent = start_agent()
    start(agent, 3, "sgd", "0", FOR_EVER)
    assert await_training(agent).own_steps is None
    ask_to_stop(agent)
    assert [agent.exit_status(rank) for rank in range(3)] == [143, 143, 143], agent.logs()
    assert len(last_lines(agent)) == 1
    last = agent.wait(0, messages.Stepped, lambda message: message.is_last)
    assert last_lines(agent) == {str(last.steps)}


@pytest.mark.slow
def test_a_handler_of_the_scripts_own_may_use_the_group(start_agent: Callable[..., FakeAgent]) -> None:
    agent = start_agent()
    start(agent, 3, "adam", "0", FOR_EVER, "handle")
    await_training(agent)
    ask_to_stop(agent)
    assert [agent.exit_status(rank) for rank in range(3)] == [0, 0, 0], agent.logs()
    for rank in range(3):
        *_, saved, step = agent.log(rank).read_text().splitlines()
        assert saved == f"saved after {step}"
    assert len(last_lines(agent)) == 1


@pytest.mark.slow
def test_one_that_has_made_no_step_does_not_wait_for_one(start_agent: Callable[..., FakeAgent]) -> None:
    agent = start_agent()
    start(agent, 2, "adam", "0", FOR_EVER)
    agent.wait(0, messages.Stepped)
    os.kill(pid_of(agent, 1), signal.SIGKILL)  # so that no worker makes a step any more
    assert agent.exit_status(0) == 1
    start(agent, 1, "adam", "0", "0")
    assert agent.exit_status(0) == 0
    lonely = fork_script(IDLES, (), agent.log(9), {**ENDLESS, environ.OBSERVER: agent.address})
    until(lambda: agent.log(9).exists() and "idle" in agent.log(9).read_text())
    assert lonely.pid is not None
    os.kill(lonely.pid, environ.STOP_AT_STEP)
    lonely.join(PATIENCE_S)
    assert lonely.exitcode == 143


ENDLESS = {
    environ.RANK: "0",
    environ.WORLD_SIZE: "2",
    environ.TOKEN: TOKEN,
    environ.WORKER: "9",
}


def test_a_program_that_takes_its_place_is_told_to_stop_by_sigterm_alone(
    start_agent: Callable[..., FakeAgent], tmp_path: Path
) -> None:
    agent = start_agent()
    wrapper = tmp_path / "wrapper.py"
    program = "trap 'echo saved; exit 143' TERM; echo begun; while true; do read -t 0.1 <> <(:); done"
    wrapper.write_text(f"import os\nos.execvp('bash', ['bash', '-c', {program!r}])\n")
    start(agent, 1, script=wrapper)
    until(lambda: agent.log(0).exists() and "begun" in agent.log(0).read_text())
    ask_to_stop(agent)
    os.kill(pid_of(agent, 0), signal.SIGTERM)
    assert agent.exit_status(0) == 143, agent.logs()
    assert last_lines(agent) == {"saved"}


def test_its_loaders_processes_end_by_sigterm_as_ever(start_agent: Callable[..., FakeAgent]) -> None:
    agent = start_agent()
    start(agent, 1, "sgd", "0", FOR_EVER, "load")
    agent.wait(0, messages.Stepped)
    loaders = psutil.Process(pid_of(agent, 0)).children()
    assert len(loaders) == 2
    loaders[0].terminate()
    gone, _ = psutil.wait_procs(loaders[:1], timeout=PATIENCE_S)
    assert gone
    assert agent.exit_status(0) == 1, "its loader is broken"


@pytest.mark.parametrize(("way", "expected"), [("copies", False), ("knows", False), ("reads", True)])
def test_a_script_that_forms_no_group_is_told_from_one_that_works_with_others(
    start_agent: Callable[..., FakeAgent], way: str, expected: bool
) -> None:
    agent = start_agent()
    start(agent, 1, way, "3", script=PLAIN)
    assert agent.wait(0, messages.Distributed).is_so is expected
    assert agent.exit_status(0) == 0, agent.logs()
    assert len(agent.all_said(messages.Distributed)) == 1


def test_the_part_of_a_worker_is_put_into_its_arguments(start_agent: Callable[..., FakeAgent]) -> None:
    agent = start_agent()
    agent.environ[environ.LOCAL_BATCH] = "4"
    start(agent, 1, "sgd", "0", "{local_batch}")
    assert agent.exit_status(0) == 0, agent.logs()
    assert [said.steps for _, said in agent.all_said(messages.Stepped)][-1] == 4


def test_one_that_forms_a_group_says_so_once(start_agent: Callable[..., FakeAgent]) -> None:
    agent = start_agent()
    start(agent, 2, "sgd", "0", "20")
    assert agent.exit_status(0) == agent.exit_status(1) == 0, agent.logs()
    assert agent.all_said(messages.Distributed) == [(0, messages.Distributed(is_so=True))]


def test_a_group_that_a_library_forms_is_told_of_at_the_first_step(
    start_agent: Callable[..., FakeAgent],
) -> None:
    agent = start_agent()
    allowed = agent.folder / "allowed"
    os.mkfifo(allowed)
    (agent.folder / "accelerate.py").write_text(LIBRARY)
    start(agent, 1, str(agent.folder), script=LIBRARY_DRIVEN)
    with allowed.open("w") as step:
        until(lambda: "formed" in agent.log(0).read_text())
        assert not agent.all_said(messages.Distributed), "what it does with its batches is not known yet"
        step.write("go on\n")
    said = agent.wait(0, messages.Distributed)
    assert said.is_so and said.is_by_library
    assert agent.exit_status(0) == 0, agent.logs()


@pytest.mark.parametrize("steps", ["3", "0"])
def test_identical_copies_end_with_a_remedy(start_agent: Callable[..., FakeAgent], steps: str) -> None:
    agent = start_agent()
    start(agent, 2, "copies", steps, script=PLAIN)
    assert [agent.exit_status(rank) for rank in range(2)] == [1, 1], agent.logs()
    for rank in range(2):
        told = agent.log(rank).read_text()
        assert "they are identical copies" in told and "--workers 1" in told
        assert ("the end" in told) == (steps == "0")
    start(agent, 2, "knows", steps, script=PLAIN)
    assert [agent.exit_status(rank) for rank in range(2)] == [0, 0], "they may share the work by rank"


def test_what_an_optimizer_knows_of_its_past() -> None:
    weight = torch.nn.Parameter(torch.ones(2))
    weight.grad = torch.ones(2)
    for kind, expected in ((torch.optim.AdamW, 3), (torch.optim.RMSprop, 3), (torch.optim.SGD, 0)):
        optimizer = kind([weight])
        for _ in range(3):
            optimizer.step()
        assert own_count(optimizer) == expected


def test_one_whose_stop_was_lost_stops_after_its_first_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the signal comes while it forks a loader's process."""
    monkeypatch.setattr(signal, "getsignal", lambda number: signal.SIG_DFL)
    told: list[tuple[int, int | None, bool]] = []
    counter = StepCounter(ObserverLine(), lambda *step: told.append(step), Lease())
    with pytest.raises(SystemExit):
        counter.asked_to_stop(environ.STOP_AT_STEP, None)
    weight = torch.nn.Parameter(torch.zeros(1))
    with pytest.raises(SystemExit):
        counter.stepped(torch.optim.SGD([weight], lr=0.1), (), {})
    assert [(step, is_last) for step, _, is_last in told] == [(1, True)]

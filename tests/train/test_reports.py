"""What scripts measure reaches their agent by name, with the library and without it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.train.fake_agent import TOKEN, FakeAgent, fork_script

from swell.train.link.observer_line import ObserverLine
from swell.train.runtime.unmanaged_script import Reporter
from swell.wire import environ, messages

SCRIPTS = Path(__file__).parent / "scripts"


def test_what_is_measured_between_epochs_is_told_before_the_next_step(
    start_agent: Callable[..., FakeAgent], tmp_path: Path
) -> None:
    agent = start_agent(total_steps=16)
    gate = tmp_path / "gate"
    agent.start_ready([0, 1], SCRIPTS / "measures.py", str(gate))
    agent.join([0, 1], source=None)
    agent.wait(0, messages.Reported, lambda said: said.values == {"accuracy": 0.5})
    agent.wait(0, messages.Reported, lambda said: said.values == {"perplexity": "inf"})
    gate.touch()
    finished = agent.wait(0, messages.Finished)
    assert finished.metrics == {"accuracy": 0.6, "perplexity": "inf"}
    assert [agent.exit_status(worker) for worker in (0, 1)] == [0, 0], agent.logs()
    told = [said.metrics for _, said in agent.all_said(messages.Progress)]
    told += [said.values for _, said in agent.all_said(messages.Reported)]
    assert sum(values.get("accuracy") == 0.5 for values in told) == 1
    assert not any("early" in values for values in told), "before there was a run"
    assert {worker for worker, _ in agent.all_said(messages.Reported)} == {0}


@pytest.mark.parametrize("num_steps", ["0", "1"])
def test_a_script_without_the_library_reports(start_agent: Callable[..., FakeAgent], num_steps: str) -> None:
    agent = start_agent()
    for rank in range(2):
        names = {
            environ.RANK: str(rank),
            environ.WORLD_SIZE: "2",
            environ.OBSERVER: agent.address,
            environ.TOKEN: TOKEN,
            environ.WORKER: str(rank),
            environ.BALLOT: str(agent.folder / "leaving"),
        }
        args = (num_steps, "5000")
        agent.processes[rank] = fork_script(SCRIPTS / "reports.py", args, agent.log(rank), names)
    assert [agent.exit_status(rank) for rank in range(2)] == [0, 0], agent.logs()
    agent.wait(0, messages.Reported, lambda said: said.values.get("loss") == 0.25)
    told = agent.all_said(messages.Reported)
    assert {worker for worker, _ in told} == {0}
    assert told[0][1].values == {"loss": 0.0}
    assert any(said.values.get("accuracy") == "nan" for _, said in told)
    assert not any("forked" in said.values for _, said in told)
    assert len(told) < 50, "of 5,000"


def test_a_process_forked_while_another_thread_reports_can_end() -> None:
    reporter = Reporter(1, ObserverLine())
    is_held, is_over = threading.Event(), threading.Event()

    def hold() -> None:
        with reporter._noting:
            is_held.set()
            is_over.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    is_held.wait()
    pid = os.fork()
    if pid == 0:
        signal.alarm(10)
        reporter.tell_values()  # as at its exit
        os._exit(0)
    try:
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    finally:
        is_over.set()
        thread.join()

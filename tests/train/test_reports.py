"""What scripts measure reaches their agent by name, with the library and without it."""

from __future__ import annotations

import itertools
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.train.fake_agent import TOKEN, FakeAgent, fork_script
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from swell import train
from swell.tally import Tally
from swell.train.link.agent_line import ObserverLine
from swell.train.runtime.unmanaged_script import Reporter
from swell.wire import environ, messages
from swell.wire.reports import number

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
    agent.wait(0, messages.Finished)
    assert agent.metrics_told() == {"accuracy": 0.6, "perplexity": "inf"}
    assert [agent.exit_status(worker) for worker in (0, 1)] == [0, 0], agent.logs()
    told = [said.metrics for _, said in agent.all_said(messages.Progress)]
    told += [said.values for _, said in agent.all_said(messages.Reported)]
    assert sum(values.get("accuracy") == 0.5 for values in told) == 1
    assert not any("early" in values for values in told), "before there was a run"
    assert {worker for worker, _ in agent.all_said(messages.Reported)} == {0}


def test_each_step_has_its_loss_and_any_worker_may_report_while_others_do_not(
    start_agent: Callable[..., FakeAgent],
) -> None:
    """Rank 1 leaves, and rank 0 dies: the last one tells the rest."""
    agent = start_agent(total_steps=100, ends_when_told=True)
    agent.start_ready([0, 1, 2], SCRIPTS / "counts.py")
    agent.join([0, 1, 2], source=None)
    agent.wait(1, messages.Reported, lambda said: "odd" in said.shares)
    agent.join([0, 2], source=0)
    agent.wait(0, messages.Progress, lambda said: said.generation == 2 and said.steps > 20)
    agent.processes[0].kill()
    agent.wait(2, messages.Broken)
    told = [tally for worker, tally in losses_of(agent) if worker == 0]
    agent.regroup([2], source=2, told_steps=told[-1].last_step)
    assert agent.exit_status(2) == 0, agent.logs()
    told += [tally for worker, tally in losses_of(agent) if worker == 2]
    assert [told[0].first_step, told[-1].last_step] == [1, 100]
    assert all(one.last_step + 1 == other.first_step for one, other in itertools.pairwise(told))
    assert sum(tally.count for tally in told) == 100
    assert all((tally.max or 0.0) < 1e9 for tally in told), "what the script calls `loss` is in no curve"
    shares = [(worker, said.shares) for worker, said in agent.all_said(messages.Reported)]
    assert {worker for worker, values in shares if "odd" in values} == {1}, "the others never report it"
    assert {values["all"].reduction for _, values in shares if "all" in values} == {"sum"}


def losses_of(agent: FakeAgent) -> list[tuple[int, Tally]]:
    """What each worker has told of losses, in order."""
    return [
        (worker, message.curves["loss"])
        for worker, message in agent.said
        if isinstance(message, messages.Progress | messages.Reported) and "loss" in message.curves
    ]


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"accuracy": "0.9"}, r"run\.report\(accuracy='0\.9'\) is not a number"),
        ({"accuracy": None}, r"run\.report\(accuracy=None\) is not a number"),
        ({"accuracy": 10**400}, "too large"),
        ({"accuracy": 1.0, "step": -1}, "a step is at least 0"),
        ({"accuracy": 1.0, "step": 10**30}, "less than"),
        ({"accuracy": 1.0, "step": 1.5}, "is not a whole number"),
        ({"accuracy": 1.0, "reduce": "median"}, "it is one of rank0, mean, sum, min, max"),
    ],
)
def test_what_cannot_be_reported_is_an_error_that_names_it(values: dict[str, Any], error: str) -> None:
    model = nn.Linear(2, 1)
    loader = DataLoader(TensorDataset(torch.zeros(4, 2)), batch_size=2)
    run = train.elastic(model, torch.optim.SGD(model.parameters(), lr=0.1), loader, epochs=1)
    with pytest.raises((TypeError, ValueError), match=error):
        run.report(**values)
    run.report(accuracy=torch.tensor(0.5), step=3, reduce="mean")


@pytest.mark.parametrize("num_steps", ["0", "1"])
def test_a_script_without_the_library_reports(start_agent: Callable[..., FakeAgent], num_steps: str) -> None:
    agent = start_agent()
    agent.observes = True
    for rank in range(2):
        names = {
            environ.RANK: str(rank),
            environ.WORLD_SIZE: "2",
            environ.OBSERVER: agent.address,
            environ.TOKEN: TOKEN,
            environ.WORKER: str(rank),
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


@pytest.mark.filterwarnings("error")
def test_a_tensor_that_carries_gradients_is_reported_without_a_warning() -> None:
    loss = torch.ones((), requires_grad=True) * 0.5
    assert number("run.report", "loss", loss) == 0.5


def test_a_process_forked_while_another_thread_reports_can_end() -> None:
    reporter = Reporter(1, ObserverLine())
    is_held, is_over = threading.Event(), threading.Event()

    def hold() -> None:
        with reporter._line.lock:
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

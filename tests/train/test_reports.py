"""What scripts measure reaches their agent by name, with the library and without it."""

from __future__ import annotations

import itertools
import os
import signal
import threading
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.train.fake_agent import TOKEN, FakeAgent, fork_script
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from swell import train
from swell.tally import Tally
from swell.train.link.agent_link import ObserverLine
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


COUNTS = """
import sys
from swell import train
found, total, optimizes = map(int, sys.argv[1:])
if optimizes:
    import torch
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
if optimizes < 2:
    train.report_progress(found, total)
for step in range(found, 60):
    if optimizes:
        optimizer.step()
        optimizer.step()
    train.report_progress(done=step + 1, total=total)
"""


@pytest.mark.parametrize(
    ("args", "error"),
    [
        ((20, 60, 0), ""),
        ((20, 60, 1), ""),
        ((0, 61, 0), "submitted with --steps 60; submit it with --steps 61"),
        ((0, 59, 0), "submit it with --steps 59"),
        ((0, 60, 2), "comes after the first step; call it before"),
    ],
)
def test_a_script_counts_its_own_steps_and_alone_it_may_call_it_all_the_same(
    start_agent: Callable[..., FakeAgent], args: tuple[int, int, int], error: str
) -> None:
    agent = start_agent()
    agent.observes = True
    script = agent.folder / "counted.py"
    script.write_text(COUNTS)
    plain = {environ.RANK: "0", environ.WORLD_SIZE: "1"}
    names = {environ.OBSERVER: agent.address, environ.TOKEN: TOKEN, environ.WORKER: "0", environ.STEPS: "60"}
    words = [str(arg) for arg in args]
    agent.processes[0] = fork_script(script, words, agent.log(0), plain | names)
    assert agent.exit_status(0) == (1 if error else 0), agent.logs()
    told = [said for _, said in agent.all_said(messages.Stepped)]
    if error:
        assert error in agent.log(0).read_text() and not any(said.own_steps for said in told)
        agent.processes[0] = fork_script(script, ["0", "60", "2"], agent.log(0), plain)
        assert agent.exit_status(0) == 0, "alone it has no effect"
        return
    assert (told[-1].own_steps, told[-1].steps) == (60, 40), "also the last, however soon it follows"
    assert all(said.own_steps == said.steps + 20 for said in told)


@pytest.mark.parametrize(
    ("done", "total", "error"),
    [
        (3, 2, r"report_progress\(done=3, total=2\): no more can be done"),
        (-1, 2, r"report_progress\(done=-1\): a step is at least 0"),
        (0.5, 2, r"report_progress\(done=0\.5\) is not a whole number"),
        (1, "2", r"report_progress\(total='2'\) is not a whole number"),
        (1, None, r"report_progress\(total=None\) is not a whole number"),
        (1 << 60, 1 << 61, r"less than 2\*\*53"),
    ],
)
def test_progress_that_cannot_be_is_an_error_that_names_it(done: Any, total: Any, error: str) -> None:
    with pytest.raises((TypeError, ValueError), match=error):
        train.report_progress(done, total)
    train.report_progress(0, 2)


@given(st.integers(0, 100), st.lists(st.integers(0, 5), max_size=20), st.integers(1, 5))
def test_progress_never_falls_within_one_start(found: int, rises: list[int], fall: int) -> None:
    told: list[messages.Stepped] = []
    reporter = Reporter(1, SimpleNamespace(is_over=False, lock=nullcontext(), send=told.append))  # type: ignore[arg-type]
    reporter.count(found, 1000)
    done = found
    for rise in rises:
        done += rise
        reporter.count(done, 1000)
        reporter.tell(done * 3, None, is_last=False)
        reporter.tell_rest()
    assert [said.steps for said in told] == sorted({said.steps for said in told})
    assert all(said.own_steps == found + said.steps <= done and said.steps > 0 for said in told)
    if done >= fall:
        with pytest.raises(ValueError, match=f"is less than before .{done}."):
            reporter.count(done - fall, 1000)


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

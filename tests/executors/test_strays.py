"""Daemons that a job's script has started do not outlive the job, whatever process is killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.eventually import eventually
from tests.executors.contract import launch
from tests.executors.listening import Listener
from tests.executors.puppets import devices

from swell.executors.controller.protocol import PROTOCOL
from swell.executors.local import link
from swell.executors.local.agent.address import read_address
from swell.executors.local.agent.options import AgentOptions
from swell.executors.local.devices import parse_devices
from swell.executors.local.launch import AgentError, stop_agent
from swell.executors.local.link import LocalExecutor
from swell.executors.local.processes.listing import is_alive
from swell.executors.local.processes.strays import end_strays
from swell.model.command import StopGang
from swell.model.event import GangEnded, GangStarted
from swell.model.job import JobSpec


def daemons_of(folder: Path, pids: tuple[int, ...]) -> list[int]:
    return [int((folder / f"daemon-{pid}").read_text()) for pid in pids]


@pytest.fixture
def started(
    executor: LocalExecutor, listener: Listener, make_job: Callable[..., JobSpec], tmp_path: Path
) -> list[int]:
    """Pids of the daemons of a gang of two."""
    executor.perform(launch(make_job, devices(0, 1), daemon=1))
    return daemons_of(tmp_path, listener.wait(GangStarted).pids)


@pytest.fixture
def orphaned(executor: LocalExecutor, started: list[int], state_dir: Path) -> list[int]:
    """The daemons after a kill of everything else."""
    address = read_address(state_dir)
    assert address is not None
    executor.close()
    os.kill(address.pid, signal.SIGKILL)
    eventually(lambda: not is_alive(address.pid))
    assert all(map(is_alive, started))
    return started


def test_the_next_agent_ends_what_the_one_before_left(
    new_executor: Callable[[], LocalExecutor], orphaned: list[int], state_dir: Path
) -> None:
    new_executor().start(Listener().put)
    assert not any(map(is_alive, orphaned))
    assert (
        "ended 2 processes that jobs of an earlier agent had left behind"
        in (state_dir / "agent.log").read_text()
    )


def test_an_end_without_a_daemon_ends_what_an_agent_left(orphaned: list[int], state_dir: Path) -> None:
    assert not stop_agent(state_dir)
    assert not any(map(is_alive, orphaned))


@pytest.mark.slow
def test_nothing_of_a_live_agent_or_of_another_folder_is_a_stray(
    started: list[int], state_dir: Path, tmp_path: Path
) -> None:
    assert end_strays(state_dir) == 0
    assert end_strays(tmp_path) == 0
    assert all(map(is_alive, started))


def ended_in_generation_7(
    new_executor: Callable[[], LocalExecutor], make_job: Callable[..., JobSpec]
) -> LocalExecutor:
    """An executor that has heard the end of its only gang."""
    executor, listener = new_executor(), Listener()
    executor.start(listener.put)
    executor.perform(launch(make_job, devices(0), generation=7))
    listener.wait(GangStarted, 7)
    executor.perform(StopGang(job_id="digits-1", generation=7))
    listener.wait(GangEnded, 7)
    return executor


def test_a_daemon_with_an_older_journal_may_begin_again_with_lower_generations(
    new_executor: Callable[[], LocalExecutor], make_job: Callable[..., JobSpec]
) -> None:
    first = ended_in_generation_7(new_executor, make_job)
    for _ in range(2):  # what was delivered before the call before is in the journal
        first.acknowledge()
    first.close()
    second, after = new_executor(), Listener()
    assert second.start(after.put).jobs == frozenset()
    second.perform(launch(make_job, devices(0), generation=2))
    assert after.wait(GangStarted, 2).pids
    live = new_executor().start(Listener().put).gangs
    assert [(gang.job_id, gang.generation, gang.devices) for gang in live] == [("digits-1", 2, devices(0))]


def test_an_end_that_no_journal_has_is_told_to_the_next_daemon_with_its_generation(
    new_executor: Callable[[], LocalExecutor], make_job: Callable[..., JobSpec]
) -> None:
    ended_in_generation_7(new_executor, make_job).close()
    assert new_executor().start(Listener().put).ended == {"digits-1": 7}


def test_what_runs_on_one_kind_of_device_is_not_adopted_by_a_daemon_that_has_another(
    new_executor: Callable[[], LocalExecutor], make_job: Callable[..., JobSpec], state_dir: Path
) -> None:
    first, before = new_executor(), Listener()
    first.start(before.put)
    first.perform(launch(make_job, devices(0, 1)))
    pids = before.wait(GangStarted).pids
    first.close()
    options = AgentOptions(state_dir=state_dir, preload=("msgspec",))
    other = LocalExecutor(options, parse_devices("cpu:8"))
    with pytest.raises(AgentError, match="with the devices and the --engine of before"):
        other.start(Listener().put)
    other.close()
    assert all(map(is_alive, pids))
    assert new_executor().start(Listener().put).jobs == {"digits-1"}


def test_an_agent_of_another_version_is_not_misunderstood(
    executor: LocalExecutor, new_executor: Callable[[], LocalExecutor], monkeypatch: pytest.MonkeyPatch
) -> None:
    executor.start(lambda event: None)
    executor.close()
    spoken = PROTOCOL
    monkeypatch.setattr(link, "PROTOCOL", spoken + 1)
    remedy = rf"it speaks protocol {spoken}, this one {spoken + 1}; `swell down --force` ends it"
    with pytest.raises(AgentError, match=remedy):
        new_executor().start(lambda event: None)

"""Fixed jobs in a world without processes: grace, the limit of time, and a controller that takes over."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from tests.executors.contract import JOB
from tests.executors.fake_hosts import Fleet, of_kind
from tests.executors.puppets import make_spec, target
from tests.executors.test_restarts import Processes

from swell.executors.exit_status import HOST_LOST, OUT_OF_MEMORY, OVER_MEMORY
from swell.model.command import LaunchGang, StopGang, SuspendGang
from swell.model.event import GangEnded, GangStarted, GangSuspended, Outcome
from swell.model.job import FIXED_ENTRY, Elasticity, EndCondition, FixedTerms
from swell.model.target import Target
from swell.wire.environ import EXIT_IDLE

FIXED = {
    "elasticity": Elasticity.FIXED,
    "entry": FIXED_ENTRY,
    "args": ("train",),
    "end": EndCondition(),
    "fixed": FixedTerms(time_s=100.0, grace_s=20.0),
}


class Commands(Processes):
    def __init__(self) -> None:
        super().__init__(**FIXED)
        spec = self.job.spec
        self.command(LaunchGang(job_id=JOB, generation=1, target=target(0, 1), spec=spec, total_steps=None))


def launch(*devices: str) -> LaunchGang:
    spec = make_spec(**FIXED)
    return LaunchGang(job_id=JOB, generation=1, target=Target(devices=devices), spec=spec, total_steps=None)


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return Fleet(tmp_path)


def test_one_that_is_suspended_gets_sigterm_and_is_killed_after_its_grace() -> None:
    commands = Commands()
    commands.command(SuspendGang(job_id=JOB, generation=1))
    commands.tick(0.1)
    assert [told for told in commands.signals if told[1] == signal.SIGTERM] == [(0, 15), (1, 15)]
    commands.end(0, 0)
    commands.tick(20.0)
    assert (1, signal.SIGKILL) not in commands.signals
    commands.tick(20.2)
    assert commands.signals[-1] == (1, signal.SIGKILL)
    commands.end(1, -signal.SIGKILL)
    assert isinstance(commands.events[-1], GangSuspended)


def test_a_stop_and_the_end_of_another_part_leave_it_the_same_grace() -> None:
    for is_stop in (True, False):
        commands = Commands()
        if is_stop:
            commands.command(StopGang(job_id=JOB, generation=2))
        commands.end(0, 3)
        assert commands.signals[-1] == (1, signal.SIGTERM)
        commands.tick(19.9)
        assert (1, signal.SIGKILL) not in commands.signals
        commands.tick(20.0)
        commands.end(1, -signal.SIGKILL)
        assert commands.ended.outcome is (Outcome.STOPPED if is_stop else Outcome.FAILED)


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (-signal.SIGSEGV, Outcome.FAILED),
        (143, Outcome.FAILED),  # a shell's, whose last command got SIGTERM
        (OVER_MEMORY, Outcome.FAILED),
        (-signal.SIGKILL, Outcome.LOST),
        (HOST_LOST, Outcome.LOST),
        (OUT_OF_MEMORY, Outcome.LOST),
    ],
)
def test_only_what_is_done_to_a_command_loses_it(status: int, outcome: Outcome) -> None:
    commands = Commands()
    commands.end(0, status)
    commands.end(1, -signal.SIGKILL)
    assert commands.ended.outcome is outcome


def test_a_session_that_was_idle_says_so_and_one_that_failed_tells_its_status_alone() -> None:
    for status, outcome, told in (
        (EXIT_IDLE, Outcome.SUCCEEDED, "was idle for 30 min"),
        (6, Outcome.FAILED, "its command ended with status 6"),
    ):
        session = Processes(**FIXED | {"fixed": FixedTerms(time_s=100.0, is_session=True, idle_s=1800.0)})
        launched = target(0)
        session.command(
            LaunchGang(job_id=JOB, generation=1, target=launched, spec=session.job.spec, total_steps=None)
        )
        session.end(0, status, "\x1b[?2004h$ exit 6\n")
        assert (session.ended.outcome, session.ended.message) == (outcome, told)


def test_it_ends_at_its_limit_since_its_start_though_no_daemon_is_there(fleet: Fleet) -> None:
    fleet.hosts["a"].is_held = True  # it takes 30 s to make ready
    fleet.perform(launch("a/0", "b/0"))
    fleet.pass_time(30.0)
    fleet.hosts["a"].let_through()
    assert of_kind(fleet, GangStarted)
    fleet.controller.detach(fleet.line)
    fleet.pass_time(99.9)
    assert len(fleet.workers(JOB)) == 2
    fleet.pass_time(0.3)
    assert not fleet.workers(JOB)
    fleet.attach("session")
    (end,) = of_kind(fleet, GangEnded)
    assert (end.outcome, end.message) == (Outcome.TIMED_OUT, "its limit of time, 1 min 40 s, was over")


def test_the_time_in_which_its_controller_was_stopped_or_replaced_counts(fleet: Fleet) -> None:
    fleet.perform(launch("a/0", "b/0"))
    fleet.pass_time(30.0)
    fleet.time_s += 30.0  # no tick: its process is stopped
    fleet.pass_time(1.0)
    fleet.time_s += 20.0
    fleet.replace_controller()
    fleet.pass_time(18.0)
    assert len(fleet.workers(JOB)) == 2
    fleet.pass_time(1.2)
    (end,) = of_kind(fleet, GangEnded)
    assert end.outcome is Outcome.TIMED_OUT


def test_a_limit_that_comes_after_a_new_start_of_the_machine_is_no_later_than_a_whole_one(
    fleet: Fleet,
) -> None:
    fleet.time_s = 10_000.0
    fleet.perform(launch("a/0", "b/0"))
    fleet.pass_time(1.0)
    fleet.time_s = 0.0
    fleet.replace_controller()
    fleet.pass_time(100.3)
    (end,) = of_kind(fleet, GangEnded)
    assert end.outcome is Outcome.TIMED_OUT


def test_its_parts_know_the_hosts_of_all(fleet: Fleet) -> None:
    fleet.perform(launch("b/0", "a/0"))
    first, second = sorted(fleet.workers(JOB), key=lambda worker: worker.number)
    assert (first.host.name, first.environ["PET_NODE_RANK"], second.environ["PET_NODE_RANK"]) == (
        "b",
        "0",
        "1",
    )
    for worker in (first, second):
        told = worker.environ
        assert told["SWELL_HOSTS"] == "b.example,a.example"
        assert (told["PET_MASTER_ADDR"], told["PET_MASTER_PORT"]) == ("b.example", "4711")
        assert (told["PET_NNODES"], told["WORLD_SIZE"], told["LOCAL_RANK"]) == ("2", "2", "0")


def test_a_host_that_is_lost_loses_it(fleet: Fleet) -> None:
    fleet.perform(launch("a/0", "b/0"))
    fleet.lose("b")
    (end,) = of_kind(fleet, GangEnded)
    told = "the command of part 1 (of 2, from 0) was lost: its machine is gone"
    assert (end.outcome, end.message) == (Outcome.LOST, told)
    assert not fleet.workers(JOB)

"""What every executor owes the head, whatever its processes are and whatever brings their machines.

What their gangs owe it, whatever their processes are, is in `tests/gang_contract.py`.

Subclass, and give the module's fixtures `platform` and `make_job(**args)` -> a `JobSpec` whose script takes
`steps=N` and `raise=N`, where they are not those of `conftest.py`.

All laws hold on the local host (`test_local_executor.py`), on hosts that have joined
(`test_joined_contract.py`), on those of Ray (`test_ray_contract.py`), and for jobs in containers
(`test_contained_jobs.py`).
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
from tests.eventually import eventually
from tests.executors.listening import Listener, Wanted

from swell.executors.local.processes.listing import is_alive
from swell.model.command import LaunchGang, Reconfigure, StopGang, SuspendGang
from swell.model.event import (
    GangEnded,
    GangResized,
    GangStarted,
    GangSuspended,
    Outcome,
    StepsReported,
    WorkersLost,
)
from swell.model.job import JobSpec
from swell.model.target import Target

MakeJob = Callable[..., JobSpec]
JOB = "digits-1"


def launch(
    make_job: MakeJob, devices: tuple[str, ...], generation: int = 1, job_id: str = JOB, **args: object
) -> LaunchGang:
    steps = args.get("steps")
    total = steps if isinstance(steps, int) else None
    spec = make_job(**args)
    return LaunchGang(
        job_id=job_id, generation=generation, target=Target(devices=devices), spec=spec, total_steps=total
    )


def resize(generation: int, devices: tuple[str, ...], job_id: str = JOB) -> Reconfigure:
    return Reconfigure(job_id=job_id, generation=generation, target=Target(devices=devices))


@dataclass(frozen=True, slots=True)
class ExecutorWorld:
    """An executor, who listens to it, and one job. Workers are processes that this one sees."""

    executor: Any
    listener: Listener
    make_job: MakeJob
    devices: tuple[str, ...]  #: at least four, of all hosts by turns
    job_id: str  #: no job had it before

    def launch(self, devices: tuple[str, ...], generation: int = 1, **args: object) -> LaunchGang:
        """Perform it; the command."""
        command = launch(self.make_job, devices, generation, self.job_id, **args)
        self.executor.perform(command)
        return command

    def resize(self, generation: int, devices: tuple[str, ...]) -> None:
        self.executor.perform(resize(generation, devices, self.job_id))

    def suspend(self, generation: int) -> None:
        self.executor.perform(SuspendGang(job_id=self.job_id, generation=generation))

    def stop(self, generation: int) -> None:
        self.executor.perform(StopGang(job_id=self.job_id, generation=generation))

    def wait(self, kind: type[Wanted], generation: int | None = None, num: int = 1) -> Wanted:
        """The `num`th event of this kind (and generation)."""
        return self.listener.wait(kind, generation, num)


class ExecutorContract:
    def test_a_gang_trains_to_its_end(self, world: ExecutorWorld) -> None:
        world.launch(world.devices[:2], steps=30)
        started = world.wait(GangStarted, 1)
        assert len(set(started.pids)) == 2
        ended = world.wait(GangEnded, 1)
        assert (ended.outcome, ended.steps) == (Outcome.SUCCEEDED, 30)
        told = [event for event in world.listener.events if getattr(event, "job_id", "") == world.job_id]
        reports = [event for event in told if isinstance(event, StepsReported)]
        assert reports[-1].steps == 30
        assert [report.loss for report in reports if report.loss is not None][-1] == 0.125
        assert told[-1] is ended
        assert not any(is_alive(pid) for pid in started.pids)

    def test_it_grows_and_shrinks_inside_live_processes(self, world: ExecutorWorld) -> None:
        world.launch(world.devices[:2])
        first = world.wait(GangStarted, 1)
        world.resize(2, world.devices[:4])
        grown = world.wait(GangResized, 2)
        assert grown.pids[:2] == first.pids
        assert len(set(grown.pids)) == 4
        world.resize(3, world.devices[1:2])
        shrunk = world.wait(GangResized, 3)
        assert shrunk.pids == first.pids[1:2]
        assert shrunk.steps >= grown.steps
        assert not any(is_alive(pid) for pid in grown.pids if pid not in shrunk.pids)

    def test_it_moves_to_other_devices_and_keeps_its_state(self, world: ExecutorWorld) -> None:
        world.launch(world.devices[:1])
        first = world.wait(GangStarted, 1)
        before = world.wait(StepsReported, num=2)
        world.resize(2, world.devices[2:4])
        moved = world.wait(GangResized, 2)
        assert not set(moved.pids) & set(first.pids)
        assert moved.steps >= before.steps

    def test_a_killed_worker_is_told_and_the_others_go_on(self, world: ExecutorWorld) -> None:
        world.launch(world.devices[:3])
        pids = world.wait(GangStarted, 1).pids
        before = world.wait(StepsReported)
        os.kill(pids[0], signal.SIGKILL)
        lost = world.wait(WorkersLost, 1)
        assert lost.devices == world.devices[:1]
        world.resize(2, world.devices[1:3])
        resized = world.wait(GangResized, 2)
        assert resized.pids == pids[1:]
        assert resized.steps >= before.steps

    def test_a_gang_whose_workers_are_all_killed_is_lost(self, world: ExecutorWorld) -> None:
        world.launch(world.devices[:1])
        os.kill(world.wait(GangStarted, 1).pids[0], signal.SIGKILL)
        assert world.wait(GangEnded, 1).outcome is Outcome.LOST

    def test_a_worker_of_two_processes_is_one_worker(self, world: ExecutorWorld) -> None:
        host = world.devices[0].rpartition("/")[0]
        pair = tuple(one for one in world.devices if one.rpartition("/")[0] == host)[:2]
        command = launch(world.make_job, pair, job_id=world.job_id, steps=30)
        spec = msgspec.structs.replace(command.spec, devices_per_worker=2, processes_per_worker=2)
        world.executor.perform(msgspec.structs.replace(command, spec=spec))
        assert len(world.wait(GangStarted, 1).pids) == 1
        ended = world.wait(GangEnded, 1)
        assert (ended.outcome, ended.steps) == (Outcome.SUCCEEDED, 30)

    def test_a_suspended_gang_goes_on_at_another_size_and_elsewhere(self, world: ExecutorWorld) -> None:
        world.launch(world.devices[:2])
        pids = world.wait(GangStarted, 1).pids
        world.wait(StepsReported)
        world.suspend(1)
        suspended = world.wait(GangSuspended, 1)
        assert not any(is_alive(pid) for pid in pids)
        world.launch(world.devices[3:4], generation=2)
        assert world.wait(GangStarted, 2).steps == suspended.steps > 0

    def test_stop_ends_the_processes(self, world: ExecutorWorld) -> None:
        world.launch(world.devices[:2])
        pids = world.wait(GangStarted, 1).pids
        world.stop(1)
        assert world.wait(GangEnded, 1).outcome is Outcome.STOPPED
        assert not any(is_alive(pid) for pid in pids)

    def test_a_script_that_raises_fails_its_job_with_its_traceback(self, world: ExecutorWorld) -> None:
        world.launch(world.devices[:2], **{"raise": 5})
        ended = world.wait(GangEnded, 1)
        assert ended.outcome is Outcome.FAILED
        assert "ZeroDivisionError" in ended.message

    def test_nothing_is_left_after_shut_down(self, world: ExecutorWorld) -> None:
        world.launch(world.devices[:4])
        pids = world.wait(GangStarted, 1).pids
        world.executor.shut_down()
        assert not any(is_alive(pid) for pid in pids)


__all__ = ["JOB", "ExecutorContract", "ExecutorWorld", "eventually", "is_alive", "launch", "resize"]

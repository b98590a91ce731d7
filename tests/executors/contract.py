"""What every executor owes the head, whatever its processes are. Subclass, and give the fixtures.

Fixtures: `executor`, `listener` (started with it), `make_job(**args)` -> a `JobSpec` whose script takes
`steps=N` and `raise=N`, and `device_ids`, at least four.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

import psutil
from tests.executors.listening import Listener, eventually

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


def launch(make_job: MakeJob, devices: tuple[str, ...], generation: int = 1, **args: object) -> LaunchGang:
    steps = args.get("steps")
    total = steps if isinstance(steps, int) else None
    spec = make_job(**args)
    return LaunchGang(
        job_id=JOB, generation=generation, target=Target(devices=devices), spec=spec, total_steps=total
    )


def resize(generation: int, devices: tuple[str, ...]) -> Reconfigure:
    return Reconfigure(job_id=JOB, generation=generation, target=Target(devices=devices))


class ExecutorContract:
    def test_a_gang_trains_to_its_end(
        self, executor: Any, listener: Listener, make_job: MakeJob, device_ids: tuple[str, ...]
    ) -> None:
        executor.perform(launch(make_job, device_ids[:2], steps=30))
        started = listener.wait(GangStarted, 1)
        assert len(set(started.pids)) == 2
        ended = listener.wait(GangEnded, 1)
        assert (ended.outcome, ended.steps) == (Outcome.SUCCEEDED, 30)
        reports = [event for event in listener.events if isinstance(event, StepsReported)]
        assert reports[-1].steps == 30
        assert reports[-1].loss is not None
        assert listener.events[-1] is ended
        assert not any(is_alive(pid) for pid in started.pids)

    def test_it_grows_and_shrinks_inside_live_processes(
        self, executor: Any, listener: Listener, make_job: MakeJob, device_ids: tuple[str, ...]
    ) -> None:
        executor.perform(launch(make_job, device_ids[:2]))
        first = listener.wait(GangStarted, 1)
        executor.perform(resize(2, device_ids[:4]))
        grown = listener.wait(GangResized, 2)
        assert grown.pids[:2] == first.pids
        assert len(set(grown.pids)) == 4
        executor.perform(resize(3, device_ids[1:2]))
        shrunk = listener.wait(GangResized, 3)
        assert shrunk.pids == first.pids[1:2]
        assert shrunk.steps >= grown.steps
        assert not any(is_alive(pid) for pid in grown.pids if pid not in shrunk.pids)

    def test_it_moves_to_other_devices_and_keeps_its_state(
        self, executor: Any, listener: Listener, make_job: MakeJob, device_ids: tuple[str, ...]
    ) -> None:
        executor.perform(launch(make_job, device_ids[:1]))
        first = listener.wait(GangStarted, 1)
        before = listener.wait(StepsReported, num=2)
        executor.perform(resize(2, device_ids[2:4]))
        moved = listener.wait(GangResized, 2)
        assert not set(moved.pids) & set(first.pids)
        assert moved.steps >= before.steps

    def test_a_killed_worker_is_told_and_the_others_go_on(
        self, executor: Any, listener: Listener, make_job: MakeJob, device_ids: tuple[str, ...]
    ) -> None:
        executor.perform(launch(make_job, device_ids[:3]))
        pids = listener.wait(GangStarted, 1).pids
        before = listener.wait(StepsReported)
        os.kill(pids[0], signal.SIGKILL)
        lost = listener.wait(WorkersLost, 1)
        assert lost.devices == device_ids[:1]
        executor.perform(resize(2, device_ids[1:3]))
        resized = listener.wait(GangResized, 2)
        assert resized.pids == pids[1:]
        assert resized.steps >= before.steps

    def test_a_gang_whose_workers_are_all_killed_is_lost(
        self, executor: Any, listener: Listener, make_job: MakeJob, device_ids: tuple[str, ...]
    ) -> None:
        executor.perform(launch(make_job, device_ids[:1]))
        os.kill(listener.wait(GangStarted, 1).pids[0], signal.SIGKILL)
        assert listener.wait(GangEnded, 1).outcome is Outcome.LOST

    def test_a_suspended_gang_goes_on_at_another_size(
        self, executor: Any, listener: Listener, make_job: MakeJob, device_ids: tuple[str, ...]
    ) -> None:
        executor.perform(launch(make_job, device_ids[:2]))
        pids = listener.wait(GangStarted, 1).pids
        listener.wait(StepsReported)
        executor.perform(SuspendGang(job_id=JOB, generation=1))
        suspended = listener.wait(GangSuspended, 1)
        assert not any(is_alive(pid) for pid in pids)
        executor.perform(launch(make_job, device_ids[:1], generation=2))
        assert listener.wait(GangStarted, 2).steps == suspended.steps > 0

    def test_stop_ends_the_processes(
        self, executor: Any, listener: Listener, make_job: MakeJob, device_ids: tuple[str, ...]
    ) -> None:
        executor.perform(launch(make_job, device_ids[:2]))
        pids = listener.wait(GangStarted, 1).pids
        executor.perform(StopGang(job_id=JOB, generation=1))
        assert listener.wait(GangEnded, 1).outcome is Outcome.STOPPED
        assert not any(is_alive(pid) for pid in pids)

    def test_a_script_that_raises_fails_its_job_with_its_traceback(
        self, executor: Any, listener: Listener, make_job: MakeJob, device_ids: tuple[str, ...]
    ) -> None:
        executor.perform(launch(make_job, device_ids[:2], **{"raise": 5}))
        ended = listener.wait(GangEnded, 1)
        assert ended.outcome is Outcome.FAILED
        assert "ZeroDivisionError" in ended.message

    def test_a_command_said_twice_is_answered_twice_and_done_once(
        self, executor: Any, listener: Listener, make_job: MakeJob, device_ids: tuple[str, ...]
    ) -> None:
        command = launch(make_job, device_ids[:1])
        executor.perform(command)
        first = listener.wait(GangStarted, 1)
        executor.perform(command)
        assert listener.wait(GangStarted, 1, num=2).pids == first.pids
        executor.perform(resize(0, device_ids[:4]))
        executor.perform(resize(2, device_ids[:1]))
        assert listener.wait(GangResized, 2).pids == first.pids

    def test_a_later_resize_supersedes_one_under_way(
        self, executor: Any, listener: Listener, make_job: MakeJob, device_ids: tuple[str, ...]
    ) -> None:
        executor.perform(launch(make_job, device_ids[:1]))
        first = listener.wait(GangStarted, 1)
        executor.perform(resize(2, device_ids[:4]))
        executor.perform(resize(3, device_ids[:2]))
        resized = listener.wait(GangResized, 3)
        assert len(resized.pids) == 2
        assert resized.pids[0] == first.pids[0]

    def test_a_gang_that_nobody_knows_is_lost_or_stopped(self, executor: Any, listener: Listener) -> None:
        executor.perform(resize(7, ("node0/0",)))
        assert listener.wait(GangEnded, 7).outcome is Outcome.LOST
        executor.perform(StopGang(job_id=JOB, generation=8))
        assert listener.wait(GangEnded, 8).outcome is Outcome.STOPPED

    def test_nothing_is_left_after_shut_down(
        self, executor: Any, listener: Listener, make_job: MakeJob, device_ids: tuple[str, ...]
    ) -> None:
        executor.perform(launch(make_job, device_ids[:4]))
        pids = listener.wait(GangStarted, 1).pids
        executor.shut_down()
        assert not any(is_alive(pid) for pid in pids)


def is_alive(pid: int) -> bool:
    """Whether it runs: a zombie holds nothing but its number."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


__all__ = ["JOB", "ExecutorContract", "eventually", "is_alive", "launch", "resize"]

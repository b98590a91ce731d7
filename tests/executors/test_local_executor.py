"""The local executor, on real processes that only pretend to train."""

from __future__ import annotations

from pathlib import Path

from tests.executors.contract import ExecutorContract, MakeJob, launch
from tests.executors.executor_gangs import ExecutorGangContract
from tests.executors.listening import Listener
from tests.executors.puppets import devices

from swell.executors.local.link import LocalExecutor
from swell.model.event import GangEnded, Outcome


class TestLocalExecutor(ExecutorContract):
    pass


class TestLocalGangs(ExecutorGangContract):
    pass


def test_a_launch_that_the_machine_cannot_do_now_is_lost_and_can_be_tried_again(
    executor: LocalExecutor, listener: Listener, make_job: MakeJob, tmp_path: Path
) -> None:
    in_the_way = tmp_path / "state" / "jobs"
    in_the_way.write_text("no folder can be made here")
    executor.perform(launch(make_job, devices(0), generation=1, steps=5))
    ended = listener.wait(GangEnded, 1)
    assert ended.outcome is Outcome.LOST
    assert str(in_the_way) in ended.message
    in_the_way.unlink()
    executor.perform(launch(make_job, ("node7/0",), generation=2, steps=5))
    ended = listener.wait(GangEnded, 2)
    assert ended.outcome is Outcome.LOST
    assert "device 'node7/0' is not one of this machine's" in ended.message
    executor.perform(launch(make_job, devices(0), generation=3, steps=5))
    assert listener.wait(GangEnded, 3).outcome is Outcome.SUCCEEDED

"""What every executor owes gangs whose optimizer's state is divided, with mirrors, whatever brings its hosts.

Subclass, and give the module's fixture `platform`: of two hosts at least, with real workers.
"""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest
from tests.eventually import eventually
from tests.executors.contract import MakeJob
from tests.executors.executor_gangs import ExecutorGangContract, ExecutorGangs
from tests.executors.puppets import make_spec

from swell.executors.local.processes.strays import HOST_MODULE
from swell.model.event import GangEnded, GangStarted, StepsReported
from swell.model.job import JobSpec

SCRIPT = Path(__file__).parents[1] / "train" / "scripts" / "endless.py"


class ShardedGangContract(ExecutorGangContract):
    @pytest.fixture
    def make_job(self, tmp_path: Path) -> MakeJob:
        def make(**args: object) -> JobSpec:
            return make_spec(
                entry=str(SCRIPT), workdir=str(tmp_path), args=("mirrors",), checkpoint_interval_s=3600.0
            )

        return make

    def test_a_host_that_is_killed_takes_no_step_with_it(self, world: ExecutorGangs) -> None:
        """Two of four workers are on it. It is the last test, for the host may not come back."""
        world.perform(world.launch(1, world.devices))
        started = world.wait(GangStarted, 1)
        world.wait(StepsReported, 1)
        _host_of(started.pids[1]).kill()

        def reports() -> list[StepsReported]:
            return [event for event in world.events if isinstance(event, StepsReported)]

        eventually(lambda: reports()[-1].num_workers == 2 and reports()[-1].steps > 20)
        steps = [step for event in reports() for step in _steps_of(event)]
        assert steps == list(range(1, len(steps) + 1)), "no step was lost, and none done again"
        assert not any(isinstance(event, GangEnded) for event in world.events)


def _host_of(pid: int) -> psutil.Process:
    """The host that has started a worker."""
    return next(parent for parent in psutil.Process(pid).parents() if HOST_MODULE in parent.cmdline())


def _steps_of(report: StepsReported) -> range:
    told = report.curves["loss"]
    return range(told.first_step, told.last_step + 1)

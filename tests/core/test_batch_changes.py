"""A change of the batch alone is a change of the same members: answered, and tried again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from tests.core.fakes import FirstFree, PowerBelief, node, profile, spec

from swell.arrays import FloatArray, IntArray
from swell.core.core import Core
from swell.core.core_settings import CoreSettings
from swell.core.planner import Planner
from swell.core.record import JobRecord
from swell.model.command import AnyCommand, LaunchGang, Reconfigure, SuspendGang
from swell.model.event import (
    AnyEvent,
    GangResized,
    GangStarted,
    JobProfiled,
    JobSubmitted,
    NodeJoined,
    StepsReported,
    Woke,
)
from swell.model.options import Domain
from swell.model.plan import Allocation
from swell.model.snapshot import Snapshot
from swell.model.target import Configuration, Target
from swell.policies.fifo import Fifo


def target(global_batch: int) -> Target:
    """The one device that the job has, and this batch."""
    return Target(devices=("n0.0",), configuration=Configuration(global_batch=global_batch))


class BatchBelief(PowerBelief):
    """The best batch is what the test says, and twice as fast as the own one."""

    def __init__(self, best: dict[str, int]) -> None:
        super().__init__()
        self.best = best

    def best_batches(
        self,
        job_id: str,
        sizes: IntArray,
        kept: int,
        hosts: IntArray | None = None,
        by_goodput: bool = False,
    ) -> tuple[FloatArray, IntArray] | None:
        return 2.0 * self.rates_per_s(job_id, sizes), 0 * sizes + self.best[job_id]

    def rate_at_batch(self, job_id: str, num_workers: int, global_batch: int, num_hosts: int = 1) -> float:
        return global_batch / 10.0

    def learn_noise(self, job_id: str, noise_scale: float) -> None:
        self.best[job_id] = int(noise_scale)


class OneEach(Fifo):
    """One device for each job."""

    name = "one_each"
    domain = Domain(opens_batches=True)

    def decide(self, snapshot: Snapshot) -> Allocation:
        return Fifo.decide(self, snapshot.with_only(snapshot.options.workers == 1))


class Stand:
    """One job whose batch is open, of its own 64 samples."""

    def __init__(self) -> None:
        settings = CoreSettings(min_hold_s=0.0, report_plan_s=0.0)
        self.core = Core(Planner(OneEach(), FirstFree()), BatchBelief({"a": 96}), settings)
        self.now_s = 10.0
        self.say(NodeJoined(at_s=self.now_s, node=node("n0", 2)))
        self.say(JobSubmitted(at_s=self.now_s, job_id="a", spec=spec(1000, max_batch=512)))
        [self.launch] = self.say(JobProfiled(at_s=self.now_s, job_id="a", profile=profile()))

    def say(self, *events: AnyEvent) -> Sequence[AnyCommand]:
        self.now_s += 1.0
        commands = self.core.handle(list(events))
        return [each for each in commands if isinstance(each, LaunchGang | Reconfigure | SuspendGang)]

    def start(self) -> None:
        assert isinstance(self.launch, LaunchGang)
        self.say(self._answer(GangStarted, self.launch.generation, steps=0, pids=()))

    def wants(self, batch: int) -> Sequence[AnyCommand]:
        """From what training measures it follows that another batch is best."""
        report = self._answer(
            StepsReported,
            self.record.gang.generation,
            steps=int(self.record.progress.done_steps),
            num_workers=1,
            noise_scale=float(batch),
        )
        return self.say(report, Woke(at_s=self.now_s))

    def resized(self, generation: int, steps: int = 0) -> Sequence[AnyCommand]:
        return self.say(self._answer(GangResized, generation, steps=steps, pids=()))

    def _answer(self, kind: Callable[..., AnyEvent], generation: int, **fields: Any) -> AnyEvent:
        return kind(at_s=self.now_s, job_id="a", generation=generation, **fields)

    @property
    def record(self) -> JobRecord:
        return self.core._state.records["a"]


@pytest.fixture
def stand() -> Stand:
    made = Stand()
    made.start()
    return made


def test_the_same_members_are_asked_for_another_batch_and_answer(stand: Stand) -> None:
    changed_s = stand.record.commanded.changed_s
    [command] = stand.wants(128)
    assert command == Reconfigure(job_id="a", generation=2, target=target(128))
    assert stand.record.global_batch == 96 and stand.record.progress.rate_per_s == pytest.approx(9.6)
    assert stand.core.under_way()[0] == command  # said again after a restart
    stand.resized(2)
    assert stand.record.global_batch == 128 and stand.record.progress.rate_per_s == pytest.approx(12.8)
    [view] = stand.core.views()
    assert view.resizes == 0 and view.resize_history == () and view.generation == 2
    assert stand.record.commanded.changed_s == changed_s  # its size has been held for as long as before

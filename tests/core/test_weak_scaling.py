"""A job that declares a batch for each worker keeps it, at every size and under every policy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.core.fakes import FirstFree, node, profile, spec

from swell.core.core import Core
from swell.core.core_settings import CoreSettings
from swell.core.planner import Planner
from swell.core.record import JobRecord
from swell.model.command import AnyCommand, LaunchGang, Reconfigure
from swell.model.event import (
    AnyEvent,
    GangResized,
    GangStarted,
    JobProfiled,
    JobSubmitted,
    NodeJoined,
    ResizeFailed,
    StepsReported,
    WorkersLost,
)
from swell.policies.registry import new_policy
from swell.throughput.belief import FittedBelief

EACH = 32


class Stand:
    """One job with 32 samples for each worker, on four devices."""

    def __init__(self, policy: str = "equal_share") -> None:
        settings = CoreSettings(min_hold_s=0.0, report_plan_s=0.0)
        self.core = Core(Planner(new_policy(policy), FirstFree()), FittedBelief(), settings)
        self.now_s = 10.0
        self.say(NodeJoined(at_s=self.now_s, node=node("n0", 4)))
        job = spec(100_000, global_batch=EACH, batch_per_worker=EACH)
        self.say(JobSubmitted(at_s=self.now_s, job_id="a", spec=job))
        self.commands = self.say(JobProfiled(at_s=self.now_s, job_id="a", profile=profile()))

    def say(self, *events: AnyEvent) -> list[AnyCommand]:
        self.now_s += 1.0
        self.commands = list(self.core.handle(list(events)))
        return self.commands

    def hear(self, kind: Callable[..., AnyEvent], **fields: Any) -> None:
        """Of the generation that was commanded last."""
        generation = self.record.generation
        self.say(kind(at_s=self.now_s, job_id="a", generation=generation, **fields))

    @property
    def asked(self) -> LaunchGang | Reconfigure:
        [command] = [each for each in self.commands if isinstance(each, LaunchGang | Reconfigure)]
        return command

    @property
    def record(self) -> JobRecord:
        return self.core._state.records["a"]


def is_kept(command: LaunchGang | Reconfigure) -> bool:
    target = command.target
    return target.configuration.global_batch == EACH * len(target.devices)


def test_it_grows_and_shrinks_with_the_workers() -> None:
    stand = Stand()
    assert len(stand.asked.target.devices) == 4
    stand.hear(GangStarted, steps=0, pids=())
    [view] = stand.core.views()
    assert (view.batch, view.batch_per_worker, view.workers) == (4 * EACH, EACH, 4)
    assert stand.record.progress.rate_per_s == pytest.approx(4 / (0.05 + 0.02))


def test_survivors_of_a_loss_go_on_with_the_batch_of_those_that_are_left() -> None:
    stand = Stand()
    stand.hear(GangStarted, steps=0, pids=())
    stand.hear(WorkersLost, devices=("n0.3",), message="gone")
    assert len(stand.asked.target.devices) == 3 and is_kept(stand.asked)
    stand.hear(GangResized, steps=10, pids=())
    for _ in range(3):  # until nothing is left to be changed
        changes = [each for each in stand.commands if isinstance(each, Reconfigure)]
        assert all(map(is_kept, changes))
        if not changes:
            break
        stand.hear(GangResized, steps=10, pids=())
    assert stand.record.global_batch == EACH * stand.record.num_workers


def test_a_change_that_fails_leaves_it_with_the_batch_of_its_workers() -> None:
    stand = Stand()
    stand.hear(GangStarted, steps=0, pids=())
    stand.hear(WorkersLost, devices=("n0.3",), message="gone")
    stand.hear(GangResized, steps=10, pids=())
    stand.hear(ResizeFailed, message="no")
    assert stand.record.global_batch == EACH * stand.record.num_workers


def test_what_is_learnt_is_of_the_batch_of_the_size() -> None:
    stand = Stand()
    stand.hear(GangStarted, steps=0, pids=())
    steps, rate_per_s = 0, 4.0
    for _ in range(40):
        stand.now_s += 9.0
        steps += int(10 * rate_per_s)
        stand.hear(StepsReported, steps=steps, num_workers=4, global_batch=4 * EACH, step_s=1.0)
    assert stand.record.progress.rate_per_s == pytest.approx(rate_per_s, rel=0.1)

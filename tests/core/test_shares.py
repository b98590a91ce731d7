"""A CPU share is a part of a target: a change of it alone is answered, and disturbs no worker."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
import pytest
from tests.core.bench import Bench, only
from tests.core.fakes import Fixed

from swell.model.command import AnyCommand, LaunchGang, Reconfigure
from swell.model.event import IDLE, GangStarted, JobWarned
from swell.model.options import Domain
from swell.model.plan import Allocation
from swell.model.snapshot import Learning, Snapshot
from swell.model.target import Configuration
from swell.model.usage import GangUsage


class Sharing(Fixed):
    """Divides cores as the test says, and notes what it was told."""

    name = "sharing"
    domain = Domain(shares_cores=True)

    shares: dict[str, float] = msgspec.field(default_factory=dict)
    seen: list[Any] = msgspec.field(default_factory=list)

    def decide(self, snapshot: Snapshot) -> Allocation:
        self.seen.append((snapshot.job_ids, snapshot.learning))
        share = np.array([self.shares.get(job_id, math.nan) for job_id in snapshot.job_ids])
        return replace(Fixed.decide(self, snapshot), share=share)

    def told_of(self, job_id: str) -> tuple[Learning, int]:
        """What it was told last, and the job's row."""
        ids, learning = self.seen[-1]
        assert learning is not None
        return learning, ids.index(job_id)


@pytest.fixture
def policy() -> Sharing:
    return Sharing(is_floor=False)


@pytest.fixture
def bench(policy: Sharing) -> Bench:
    return Bench(policy=policy)


def share(bench: Bench, policy: Sharing, **shares: float) -> list[AnyCommand]:
    """The policy divides the cores again as soon as it is asked."""
    policy.shares.update(shares)
    name = f"other-{len(policy.seen)}"  # that another job comes is news
    return bench.submit(name) + bench.profiled(name)


def changes(commands: list[AnyCommand]) -> list[AnyCommand]:
    return [command for command in commands if isinstance(command, LaunchGang | Reconfigure)]


def test_another_share_is_a_change_of_the_same_members(bench: Bench, policy: Sharing) -> None:
    generation = bench.run("a", workers=2)
    devices = bench.job("a").devices
    change = only(changes(share(bench, policy, a=0.5)), Reconfigure)
    assert change.target.devices == devices and change.target.configuration == Configuration(share=0.5)
    assert change.generation > generation
    bench.resized(change.generation)
    job = bench.job("a")
    assert (job.share, job.workers, job.resizes) == (0.5, 2, 0), "it is no resize"
    assert not changes(share(bench, policy, a=0.5)), "what it has is not asked for again"
    assert (
        only(changes(share(bench, policy, a=math.nan)), Reconfigure).target.configuration == Configuration()
    )


def test_a_share_that_could_not_be_set_is_tried_again_later(bench: Bench, policy: Sharing) -> None:
    bench.run("a")
    change = only(changes(share(bench, policy, a=0.5)), Reconfigure)
    bench.resize_failed(change.generation)
    assert bench.job("a").share is None and bench.job("a").message == "no"
    bench.now_s += 1000.0
    again = only(changes(share(bench, policy, a=0.25)), Reconfigure)
    assert again.generation > change.generation


def test_a_share_that_could_not_be_set_is_no_obstacle_to_a_resize(bench: Bench, policy: Sharing) -> None:
    bench.run("a", workers=2)
    for _ in range(3):
        bench.resize_failed(only(changes(share(bench, policy, a=0.5)), Reconfigure).generation)
        bench.now_s += 10.0
    bench.resize_failed(only(changes(share(bench, policy, a=0.5)), Reconfigure).generation)
    assert not changes(share(bench, policy, b=1.0)), "the share is not asked for again so soon"
    bench.want(a=4)
    assert len(only(changes(share(bench, policy, b=1.0)), Reconfigure).target.devices) == 4


def test_a_policy_that_divides_cores_is_told_what_jobs_learn(bench: Bench, policy: Sharing) -> None:
    generation = bench.run("a")
    bench.reported(generation, 10, loss=2.5, usage=GangUsage(cpu_s=3.0))
    share(bench, policy, b=1.0)
    learning, row = policy.told_of("a")
    assert (learning.value[row], learning.cpu_s[row], learning.node[row]) == (2.5, 3.0, 0)
    assert learning.node_names[0] == "n0"
    assert learning.value_s[row] == pytest.approx(bench.now_s, abs=10.0)
    other, row = policy.told_of(next(job_id for job_id in policy.seen[-1][0] if job_id != "a"))
    assert np.isnan([other.value[row], other.cpu_s[row], other.share[row]]).all() and other.node[row] == -1


def _wait(bench: Bench) -> list[AnyCommand]:
    """Until its back-off is over."""
    bench.now_s += 1000.0
    return changes(bench.submit("z") + bench.profiled("z"))


def test_what_all_gangs_moved_is_shown(bench: Bench) -> None:
    generation = bench.run("a")
    first = GangUsage(cpu_s=3.0, memory_bytes=100, read_bytes=5, written_bytes=10)
    bench.reported(generation, 10, loss=2.5, usage=first)
    launch = only(bench.gone(generation, steps=10) or _wait(bench), LaunchGang)
    bench.say(GangStarted(at_s=bench.now_s, job_id="a", generation=launch.generation, steps=0, pids=(1,)))
    bench.reported(launch.generation, 10, loss=2.0, usage=GangUsage(cpu_s=1.0, read_bytes=7, written_bytes=1))
    view = bench.job("a")
    assert (view.read_bytes, view.written_bytes) == (12, 11)


def test_use_of_devices_adds_up_over_gangs_and_is_kept_day_by_day(bench: Bench) -> None:
    generation = bench.run("a")
    for day in range(4):
        for hour in range(3):
            bench.now_s += 8 * 3600.0
            used_s = 1000.0 * (3 * day + hour + 1)
            bench.reported(generation, 10 + 3 * day + hour, usage=GangUsage(cpu_s=1.0, used_s=used_s))
    used = bench.job("a").used
    assert used[-1][1] == 12_000.0 and len(used) < 12
    assert all(43_200.0 < later - one <= 86_400.0 for (one, _), (later, _) in pairwise(used[:-1]))
    launch = only(bench.gone(generation, steps=22) or _wait(bench), LaunchGang)
    bench.say(GangStarted(at_s=bench.now_s, job_id="a", generation=launch.generation, steps=0, pids=(1,)))
    bench.reported(launch.generation, 23, usage=GangUsage(cpu_s=1.0))
    assert bench.job("a").used[-1][1] == 12_000.0, "it is not measured there"
    bench.reported(launch.generation, 24, usage=GangUsage(cpu_s=1.0, used_s=500.0))
    assert bench.job("a").used[-1][1] == 12_500.0


def test_its_owner_is_told_since_when_devices_are_idle_until_they_are_used(bench: Bench) -> None:
    generation = bench.run("a")

    def warn(text: str) -> float | None:
        bench.now_s += 60.0
        bench.say(JobWarned(at_s=bench.now_s, job_id="a", about=IDLE, message=text))
        return bench.job("a").idle_since_s

    assert bench.job("a").idle_since_s is None
    begun_s = warn("1 of its 2 devices")
    assert begun_s is not None and begun_s == warn("2 of its 2 devices")
    assert warn("") is None
    assert (warn("1 of its 2 devices") or 0.0) > begun_s
    launch = only(bench.gone(generation, steps=10) or _wait(bench), LaunchGang)
    bench.say(GangStarted(at_s=bench.now_s, job_id="a", generation=launch.generation, steps=0, pids=(1,)))
    assert bench.job("a").idle_since_s is None, "the next gang has its own devices"

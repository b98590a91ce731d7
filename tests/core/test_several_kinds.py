"""Jobs that name several kinds of device get one of them as they arrive, event by event."""

from __future__ import annotations

import msgspec
from tests.core.fakes import profile, spec
from tests.core.test_kinds import again, join, launches, new, of_kind, submit

from swell.core.platform_core import PlatformCore
from swell.model.command import AnyCommand, ProfileJob
from swell.model.event import (
    AnyEvent,
    GangEnded,
    JobProfiled,
    JobSubmitted,
    Outcome,
)
from swell.model.kind import ANY


def naming(job_id: str, *kinds: str, at_s: float = 1.0) -> JobSubmitted:
    return JobSubmitted(at_s=at_s, job_id=job_id, spec=spec(10_000, kinds=kinds))


def whole(event: JobSubmitted) -> JobSubmitted:
    """The job takes a whole node."""
    return msgspec.structs.replace(event, spec=msgspec.structs.replace(event.spec, min_workers=4))


def measured(job_id: str, kind: str, at_s: float = 2.0, step_s: float = 0.1) -> JobProfiled:
    found = msgspec.structs.replace(profile(), device_kind=kind, compute_s={64: step_s})
    return JobProfiled(at_s=at_s, job_id=job_id, profile=found)


def measuring(commands: list[AnyCommand]) -> dict[str, str]:
    """Kinds of trial runs by job."""
    return {one.job_id: one.device_kind for one in commands if isinstance(one, ProfileJob)}


def two(wanted: int = 4) -> PlatformCore:
    core = new(wanted)
    core.handle([join(of_kind("slow", "n0")), join(of_kind("fast", "n1"))])
    return core


def kinds_of(core: PlatformCore) -> dict[str, str]:
    return {view.id: view.kind for view in core.views()}


def test_jobs_of_a_batch_see_its_nodes_and_each_other() -> None:
    core = new()
    nodes = [join(of_kind("slow", "n0")), join(of_kind("fast", "n1"))]
    batch: list[AnyEvent] = [whole(naming(job_id, "slow", "fast")) for job_id in ("a", "b")]
    assert measuring(core.handle([*batch, *nodes])) == {"a": "slow", "b": "fast"}, (
        "the second one finds no room on slow"
    )


def waiting() -> PlatformCore:
    """`a` waits on `slow`, of which `b` has all devices, and `c` has all of `fast`."""
    core = two()
    core.handle([submit("b", "slow"), submit("c", "fast")])
    core.handle([measured("b", "slow"), measured("c", "fast")])
    core.handle([naming("a", "slow", "fast", at_s=4.0)])
    core.handle([measured("a", "slow", 5.0)])
    assert kinds_of(core)["a"] == "slow"
    return core


def ended(job_id: str, at_s: float) -> GangEnded:
    return GangEnded(at_s=at_s, job_id=job_id, generation=1, outcome=Outcome.SUCCEEDED, steps=10_000)


def test_a_waiting_job_stays_on_its_kind() -> None:
    core = waiting()
    for platform in (again(core), core):
        assert platform.handle([ended("c", 6.0)]) == []
        assert kinds_of(platform) == {"a": "slow", "b": "slow"}
        assert launches(platform.handle([ended("b", 8.0)])).keys() == {"a"}


def test_a_job_that_comes_before_any_node_has_the_kind_of_the_first_that_suits_it() -> None:
    core = new()
    core.handle([whole(naming("a", ANY))])
    commands = core.handle([join(of_kind("fast", "n1"), 2.0)])
    assert measuring(commands) == {"a": "fast"}

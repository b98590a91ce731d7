"""A platform may have several kinds of device, a gang one: a core for each, which the others do not reach."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from tests.core.bench import only
from tests.core.fakes import Fixed, core_of, node, profile, spec

from swell.core.core import Core
from swell.core.platform_core import PlatformCore
from swell.model.command import AnyCommand, LaunchGang, ProfileJob, WakeAt
from swell.model.event import (
    DrainRequested,
    GangEnded,
    GangFound,
    JobProfiled,
    JobSubmitted,
    KindAllowed,
    NodeJoined,
    NodeLost,
    Opened,
    Outcome,
)
from swell.model.node import Node
from swell.policies.unified import Unified


def of_kind(kind: str, name: str, num_devices: int = 4) -> Node:
    return msgspec.structs.replace(node(name, num_devices), kind=kind)


def new(wanted: int = 4) -> PlatformCore:
    """Under a policy that gives each of `a`, `b` and `c` so many."""
    policy = Fixed(dict.fromkeys("abc", wanted))
    return PlatformCore(lambda: core_of(policy))


def kinds(core: PlatformCore | Core) -> list[str]:
    cluster = core.cluster if isinstance(core, PlatformCore) else core.state.cluster
    return sorted({node.kind for node in cluster.nodes})


def join(node: Node, at_s: float = 0.0) -> NodeJoined:
    return NodeJoined(at_s=at_s, node=node)


def submit(job_id: str, kind: str = "", at_s: float = 1.0) -> JobSubmitted:
    return JobSubmitted(at_s=at_s, job_id=job_id, spec=spec(10_000, kind=kind))


def measured(job_id: str, at_s: float = 2.0) -> JobProfiled:
    return JobProfiled(at_s=at_s, job_id=job_id, profile=profile())


def launches(commands: Iterable[AnyCommand]) -> dict[str, tuple[str, ...]]:
    """Devices by job."""
    return {one.job_id: one.target.devices for one in commands if isinstance(one, LaunchGang)}


def again(core: PlatformCore) -> PlatformCore:
    """Another one with its state."""
    other = new()
    other.load(core.save())
    return other


def two_kinds() -> tuple[PlatformCore, dict[str, tuple[str, ...]]]:
    """With a gang of `a` on all of `slow`, and one of `b` on all of `fast`."""
    core = new()
    core.handle([join(of_kind("slow", "n0")), join(of_kind("fast", "n1"))])
    asked = core.handle([submit("a"), submit("b", "fast")])
    kinds_asked = {one.job_id: one.device_kind for one in asked if isinstance(one, ProfileJob)}
    assert kinds_asked == {"a": "slow", "b": "fast"}, "each is measured on its own kind"
    return core, launches(core.handle([measured("a"), measured("b")]))


def test_each_job_gets_devices_of_its_kind_and_one_that_names_none_those_of_the_first() -> None:
    core, devices = two_kinds()
    assert devices == {"a": ("n0.0", "n0.1", "n0.2", "n0.3"), "b": ("n1.0", "n1.1", "n1.2", "n1.3")}
    assert core.kinds == ("slow", "fast") and kinds(core) == ["fast", "slow"]
    assert {view.id: view.kind for view in core.views()} == {"a": "slow", "b": "fast"}


# ---------------------------------------------------------------- kinds that are new
def asking(*own: str) -> PlatformCore:
    """A platform whose own devices are of these kinds, and that asks before it takes others."""
    core = new()
    core.handle([Opened(at_s=0.0, kinds=own), *(join(of_kind(kind, f"node-{kind}")) for kind in own)])
    return core


def names(core: PlatformCore) -> list[str]:
    return [node.name for node in core.cluster.nodes]


def test_a_node_of_a_new_kind_waits_aside_until_its_kind_is_allowed() -> None:
    core = asking("slow")
    core.handle([join(of_kind("odd", "n1"), 1.0)])
    assert (names(core), core.kinds) == (["node-slow"], ("slow",)), "a job need name no kind"
    (lost,) = core.lost_nodes
    assert (lost.name, lost.at_s) == ("n1", 1.0)
    assert (
        "waits aside: its devices are of kind 'odd', which is new here; `swell nodes allow-kind" in lost.cause
    )
    for platform in (core, again(core)):
        platform.handle([KindAllowed(at_s=2.0, kind="odd")])
        assert names(platform) == ["node-slow", "n1"] and platform.lost_nodes == ()
        platform.handle([join(of_kind("odd", "n2"), 3.0)])
        assert names(platform)[2:] == ["n2"], "the kind is allowed, not the node"
    assert core.kinds == ("slow", "odd")


def reasons(core: PlatformCore) -> dict[str, str]:
    return {view.id: view.reason for view in core.views()}


# ---------------------------------------------------------------- jobs and kinds
def test_a_job_waits_for_its_kind_however_many_others_are_idle() -> None:
    core = new()
    core.handle([join(of_kind("slow", "n0")), submit("b", "fast")])
    (view,) = core.views()
    assert view.kind == "fast" and view.reason == "waits for a node: none of kind fast is there"
    asked = core.handle([join(of_kind("fast", "n1"), 2.0)])
    assert only([one for one in asked if not isinstance(one, WakeAt)], ProfileJob).device_kind == "fast"


def test_a_job_that_names_kinds_gets_one_on_which_it_may_have_a_size_that_the_policy_gives() -> None:
    """Three workers would fit on the other, which the policy, that gives powers of two, does not give."""
    core = new()
    core.handle([join(of_kind("narrow", "n0", 3)), join(of_kind("wide", "n1", 4))])
    wanted = spec(10_000, kinds=("narrow", "wide"), min_workers=3)
    core.handle([JobSubmitted(at_s=1.0, job_id="a", spec=wanted)])
    assert [view.kind for view in core.views()] == ["wide"]


def test_a_job_whose_kind_is_not_known_does_not_say_that_no_node_is_there() -> None:
    core = new()
    core.handle([submit("a")])
    assert reasons(core) == {"a": "waits for a node: none has joined this platform yet"}
    core.handle([submit("b", "fast", 2.0)])
    core.handle([join(of_kind("fast", "n1"), 3.0)])
    told = "waits for a node: none of the kind that it was submitted to is there"
    assert reasons(core)["a"] == told
    core = again(core)
    core.handle([NodeLost(at_s=4.0, name="n1"), submit("c", "slow", 5.0), DrainRequested(at_s=6.0)])
    assert reasons(core)["a"] == told


def test_a_gang_that_no_journal_explains_keeps_its_devices_until_it_is_gone() -> None:
    """The journal was lost: the job of a gang on `fast` is submitted again, to `slow`."""
    core, fast = new(), ("n1.0", "n1.1", "n1.2", "n1.3")
    found = GangFound(at_s=0.0, job_id="b", generation=3, devices=fast, steps=10)
    core.handle([submit("b", at_s=0.0), join(of_kind("slow", "n0")), join(of_kind("fast", "n1")), found])
    core.handle([submit("a", "fast")])
    assert not launches(core.handle([measured("a"), measured("b")])), "neither device nor job is free"
    gone = GangEnded(at_s=3.0, job_id="b", generation=4, outcome=Outcome.STOPPED, steps=10)
    assert launches(core.handle([gone])) == {"a": fast, "b": ("n0.0", "n0.1", "n0.2", "n0.3")}


# ---------------------------------------------------------------- jobs that name several kinds
def naming(job_id: str, *kinds: str, at_s: float = 1.0) -> JobSubmitted:
    return JobSubmitted(at_s=at_s, job_id=job_id, spec=spec(10_000, kinds=kinds))


def kinds_of(core: PlatformCore) -> dict[str, str]:
    return {view.id: view.kind for view in core.views()}


def test_a_gang_on_instances_of_mig_is_one_device() -> None:
    """NCCL sums nothing there, so no job gets two of them, or is tried with two."""
    core = PlatformCore(lambda: core_of(Unified()))
    core.handle([join(of_kind("cuda:A100 MIG 1g.5gb", "n0"))])
    trial = only(core.handle([submit("a")]), ProfileJob)
    assert trial.sizes == (1,)
    (devices,) = launches(core.handle([measured("a")])).values()
    assert len(devices) == 1
    needs_two = JobSubmitted(at_s=3.0, job_id="b", spec=spec(10_000, min_workers=2))
    assert not launches([*core.handle([needs_two]), *core.handle([measured("b", 4.0)])])

"""Jobs that name several kinds of device: the head chooses one, and tries the others before it refuses."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import fewer_if_quick, pick
from tests.sim.test_kinds import COST, KINDS, asking, failures, kinds_of, node, nodes, policies
from tests.sim.worlds import RATES, head, job

from swell.core.platform_core import PlatformCore
from swell.model.command import LaunchGang
from swell.model.job import AfterRefusal, JobClass, Phase
from swell.model.kind import ANY
from swell.model.node import Node
from swell.sim.change_cost import Constant
from swell.sim.job import SimJob
from swell.sim.kind_truth import KindTruth
from swell.sim.outcome import JobOutcome
from swell.sim.simulate import Scenario, simulate
from swell.sim.world import SimulatedWorld

FREE = Constant(0.0)


def naming(one: SimJob, *kinds: str, speeds: Mapping[str, float] | None = None) -> SimJob:
    """The job, which may have these kinds, each as fast as stated."""
    speeds = speeds or {}
    truth = KindTruth(profile=one.profile, speed=one.speed)
    spec = msgspec.structs.replace(one.spec, kinds=kinds, kind_speeds=dict(speeds))
    truths = {kind: truth.times(speeds.get(kind, 1.0), kind) for kind in KINDS}
    return replace(one, spec=spec, truths=truths)


def run(there: Sequence[Node], jobs: Sequence[SimJob], policy: str = "elasticflow") -> list[JobOutcome]:
    return list(simulate(head(policy), Scenario(nodes=there, jobs=jobs, cost=FREE)).jobs)


speeds_of_kinds = st.fixed_dictionaries({kind: pick(0.5, 1.0, 3.0) for kind in KINDS})


@st.composite
def jobs_on(draw: st.DrawFn, there: Sequence[Node]) -> list[SimJob]:
    """Some of them name several kinds, or any."""
    kinds, speeds = sorted({node.kind for node in there}), draw(speeds_of_kinds)
    made = []
    for number in range(draw(st.integers(1, 8))):
        one = job(
            f"job{number}",
            submit_s=float(draw(st.integers(0, 60))),
            steps=draw(st.integers(20, 300)),
            deadline_s=draw(pick(None, None, 120.0, 400.0, 1500.0)),
            rates=draw(st.sampled_from([RATES, RATES, {2: 1.8, 4: 3.0}])),
        )
        named = tuple(draw(st.lists(pick(*kinds), min_size=1, max_size=3, unique=True)))
        if named == (kinds[0],):
            made.append(naming(one, ANY, speeds=speeds))
        else:
            made.append(naming(one, *named, speeds=speeds) if len(named) > 1 else asking(named[0], one))
    return made


def may_have(one: SimJob) -> set[str]:
    spec = one.spec
    return {spec.kind} if spec.kind else {*KINDS} if ANY in spec.kinds else {*spec.kinds}


@pytest.mark.slow
@settings(max_examples=fewer_if_quick(60), deadline=None)
@given(data=st.data(), policy=policies)
def test_a_job_runs_on_one_of_its_kinds_and_stays_on_it_once_it_has_started(
    data: st.DataObject, policy: str
) -> None:
    there = data.draw(nodes())
    jobs = data.draw(jobs_on(there))
    allowed = {one.id: may_have(one) for one in jobs}
    had: dict[str, set[str]] = defaultdict(set)

    def listen(core: PlatformCore) -> None:
        held = [device for gang in core.gangs() for device in gang.devices]
        assert len(held) == len(set(held))
        for gang in core.gangs():
            had[gang.job_id] |= kinds_of(gang.devices)
        ids = [view.id for view in core.views()]
        assert len(ids) == len(set(ids)), "one core has it"
        assert all(view.kind in allowed[view.id] for view in core.views())

    scenario = Scenario(nodes=there, jobs=jobs, cost=COST, others=data.draw(failures(there)))
    simulate(head(policy), scenario, listen=listen)
    for job_id, kinds in had.items():
        assert len(kinds) <= 1 and kinds <= allowed[job_id]


@pytest.mark.slow
@settings(max_examples=fewer_if_quick(40), deadline=None)
@given(data=st.data(), policy=policies)
def test_a_head_that_goes_on_from_a_fold_makes_the_same_choices(data: st.DataObject, policy: str) -> None:
    there = data.draw(nodes())
    jobs = sorted(data.draw(jobs_on(there)), key=lambda one: one.submit_s)
    core, world = head(policy), SimulatedWorld(there, jobs, COST)
    restart = data.draw(st.integers(1, 12))
    turn, other = 0, head(policy)
    while batch := world.next_events():
        turn += 1
        if turn == restart:
            other.load(core.save())
        commands = core.handle(batch)
        if turn >= restart:
            assert other.handle(batch) == commands
        for command in commands:
            world.perform(command)


@pytest.mark.slow
@settings(max_examples=fewer_if_quick(40), deadline=None)
@given(
    speeds=speeds_of_kinds,
    sizes=st.lists(pick(1, 2, 4), min_size=3, max_size=3),
    steps=st.integers(50, 300),
    deadline_s=st.integers(10, 400),
    named=st.permutations(KINDS),
)
def test_on_an_empty_cluster_the_promise_and_the_offer_are_those_of_the_best_kind(
    speeds: dict[str, float], sizes: list[int], steps: int, deadline_s: int, named: list[str]
) -> None:
    there = [node(f"n{kind}", kind, size) for kind, size in zip(KINDS, sizes, strict=True)]
    one = job("one", steps=steps, deadline_s=float(deadline_s))
    (together,) = run(there, [naming(one, *named, speeds=speeds)])
    alone = [run(there, [asking(kind, naming(one, speeds=speeds))])[0] for kind in KINDS]
    assert together.is_promised is any(each.is_promised for each in alone)
    if not together.is_promised:
        offers = [each.counter_offer_s for each in alone]
        assert together.counter_offer_s == min(offer for offer in offers if offer is not None)


@pytest.mark.slow
@settings(max_examples=fewer_if_quick(30), deadline=None)
@given(data=st.data())
def test_stated_speeds_of_jobs_with_one_kind_change_nothing(data: st.DataObject) -> None:
    there = data.draw(nodes())
    kinds = sorted({node.kind for node in there})
    jobs = [job(f"job{number}", submit_s=7.0 * number) for number in range(4)]
    plain = [asking(kinds[number % len(kinds)], one) for number, one in enumerate(jobs)]
    stated = [asking(one.spec.kind, naming(one)) for one in plain]
    assert run(there, stated) == run(there, plain)


def launched(there: Sequence[Node], jobs: Sequence[SimJob], policy: str) -> dict[str, tuple[float, set[str]]]:
    """When each job was first launched, and on which kind."""
    core, world = head(policy), SimulatedWorld(there, jobs, FREE)
    found: dict[str, tuple[float, set[str]]] = {}
    while batch := world.next_events():
        for command in core.handle(batch):
            if isinstance(command, LaunchGang):
                found.setdefault(command.job_id, (world.now_s, kinds_of(command.target.devices)))
            world.perform(command)
    return found


WHOLE = {4: 1.0}  #: rates of a job that takes all four devices of a node


def test_a_waiting_job_goes_to_a_kind_that_becomes_free() -> None:
    there = [node("n0", "a100", 4), node("n1", "cpu", 4)]
    long, short = job("long", steps=1000, rates=WHOLE), job("short", steps=50, rates=WHOLE)
    waiting = naming(job("waiting", submit_s=10.0, steps=50, rates=WHOLE), "a100", "cpu")
    found = launched(there, [asking("a100", long), asking("cpu", short), waiting], "fifo")
    assert found["waiting"] == (50.0, {"cpu"}), "it was submitted to a100, as both were as full"
    alone = launched(there, [asking("a100", long), asking("cpu", short), asking("a100", waiting)], "fifo")
    assert alone["waiting"] == (1000.0, {"a100"})


def test_jobs_that_wait_do_not_all_go_to_the_room_for_one() -> None:
    there = [node("n0", "a100", 4), node("n1", "cpu", 4)]
    busy = [
        asking("a100", job("long", steps=1000, rates=WHOLE)),
        asking("cpu", job("short", steps=50, rates=WHOLE)),
    ]
    waiting = [
        naming(job(name, submit_s=10.0, steps=100, rates=WHOLE), "a100", "cpu") for name in ("w0", "w1")
    ]
    found = launched(there, [*busy, *waiting], "fifo")
    assert (found["w1"], found["w0"]) == ((50.0, {"cpu"}), (150.0, {"cpu"})), "w1 was there before"


def strict(name: str, submit_s: float, deadline_s: float) -> SimJob:
    return job(name, submit_s=submit_s, steps=100, deadline_s=deadline_s, rates=WHOLE)


TWO = [node("n0", "a100", 4), node("n1", "cpu", 4)]


def test_a_deadline_that_one_kind_refuses_is_promised_by_another() -> None:
    first, second = asking("a100", strict("first", 0.0, 150.0)), strict("second", 1.0, 160.0)
    both = naming(second, "a100", "cpu")
    outcomes = {one.id: one for one in run(TWO, [first, both])}
    assert outcomes["second"].is_promised and outcomes["second"].is_kept
    story = {one.id: one for one in run(TWO, [first, asking("a100", second)])}["second"]
    assert story.phase is Phase.REJECTED


def test_a_deadline_that_all_refuse_is_offered_as_early_as_the_first_kind_that_could() -> None:
    late = naming(strict("late", 1.0, 60.0), "cpu", "a100", speeds={"cpu": 0.5, "a100": 1.0})
    (refused,) = run(TWO, [late])
    (on_a100,) = run(TWO, [asking("a100", late)])
    assert refused.phase is Phase.REJECTED and refused.counter_offer_s == on_a100.counter_offer_s
    assert "on a100: " in refused.why and "; on cpu: " in refused.why
    assert refused.why.endswith("a100 could be ready first")


@pytest.mark.parametrize("after", [{"after_refusal": AfterRefusal.SOFT}, {"accept_until_s": math.inf}])
def test_a_job_that_goes_on_after_its_refusal_does_so_on_the_kind_that_is_ready_first(
    after: dict[str, object],
) -> None:
    late = naming(strict("late", 1.0, 60.0), "cpu", "a100", speeds={"cpu": 0.5, "a100": 1.0})
    late = replace(late, spec=msgspec.structs.replace(late.spec, **after))
    assert launched(TWO, [late], "elasticflow")["late"][1] == {"a100"}
    (done,) = run(TWO, [late])
    assert done.phase is Phase.SUCCEEDED and done.job_class is JobClass.STRICT
    assert done.is_promised is ("accept_until_s" in after) and done.is_unpromised is not done.is_promised

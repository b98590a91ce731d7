"""A head that goes on elsewhere: what it says of the jobs is what would have become of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import share_of_examples
from tests.policies.guide import from_the_guide
from tests.sim.worlds import fixed, head, job

from swell.core.costs import CostTable
from swell.core.kinds import read_platform
from swell.core.platform_core import PlatformCore
from swell.live.board import TurnResult, ViewBoard
from swell.model.booking import Booking
from swell.model.deadline_state import is_measured
from swell.model.event import AnyEvent, BookingMade
from swell.model.job import JobClass, Phase
from swell.model.node import Node
from swell.model.view import JobView
from swell.policies import registry
from swell.sim.job import SimJob
from swell.sim.simulate import cluster
from swell.sim.what_if import JobForecast, PlatformChange, PlatformState, as_learnt, go_on, sim_job
from swell.sim.world import Scenario, SimulatedWorld
from swell.throughput.belief import FittedBelief

#: What a head takes changes to cost before it has measured any.
COST = as_learnt(CostTable())
POLICIES = ("elasticflow", "edf", "fifo", "srtf", "equal_share")
#: With a memory and a period: the second example of the documentation.
PERIODIC = "periodic_shares"


class Half:
    """A run that is looked at in the middle, and then goes on to its end."""

    def __init__(
        self,
        jobs: list[SimJob],
        cut_s: float,
        policy: str = "elasticflow",
        others: Sequence[AnyEvent] = (),
    ) -> None:
        self.jobs = {job.id: job for job in jobs}
        self.cut_s, self.policy = cut_s, policy
        self.ended: dict[str, JobView] = {}
        self.ended_before: frozenset[str] = frozenset()
        core = head(policy)
        by_submission = sorted(jobs, key=lambda job: job.submit_s)
        nodes = cluster(1, 8, "gpu")
        world = SimulatedWorld(Scenario(nodes=nodes, jobs=by_submission, cost=COST, others=others))
        self.state, self.told = b"", dict[str, JobView]()
        while batch := world.next_events():
            if not self.state and batch[0].at_s > cut_s:
                self._cut(core)
            for command in core.handle(batch):
                world.perform(command)
            self.ended |= {view.id: view for view in core.ended_views()}
        if not self.state:
            self._cut(core)

    def _cut(self, core: PlatformCore) -> None:
        board = ViewBoard()
        board.post(TurnResult.of(core))
        self.state, self.told = core.save(), {view.id: view for view in board.jobs()}
        self.ended_before = frozenset(self.ended)

    @property
    def standing(self) -> PlatformState:
        known = {name: job for name, job in self.jobs.items() if name not in self.ended_before}
        return PlatformState(now_s=self.cut_s, saved=read_platform(self.state).kinds[0].saved, jobs=known)

    def if_(
        self,
        policy: str = "",
        nodes: tuple[Node, ...] = (),
        jobs: tuple[SimJob, ...] = (),
    ) -> dict[str, JobForecast]:
        change = PlatformChange(policy=policy, nodes=nodes, jobs=jobs)
        return go_on(head(self.policy), self.standing, change)


def node(name: str) -> Node:
    return Node(name=name, devices=tuple(f"{name}.{place}" for place in range(8)), kind="gpu")


@st.composite
def halves(draw: st.DrawFn) -> Half:
    """Up to six jobs that have all come by the moment at which the run is looked at."""
    jobs = [
        job(
            f"job{number}",
            submit_s=draw(st.integers(0, 60)),
            steps=draw(st.integers(20, 400)),
            deadline_s=draw(st.sampled_from([None, None, 120.0, 400.0, 1500.0])),
        )
        for number in range(draw(st.integers(1, 6)))
    ]
    return Half(jobs, draw(st.integers(61, 300)) + 0.25, draw(st.sampled_from(POLICIES)))


@pytest.mark.slow
@settings(max_examples=share_of_examples(0.4), deadline=None)
@given(half=halves())
def test_what_is_foretold_is_what_becomes_of_the_jobs(half: Half) -> None:
    """A pause that is under way is not seen by the head, and a step of its own may be: no more than that."""
    told = half.if_()
    assert told.keys() == half.ended.keys() - half.ended_before
    for name, fate in told.items():
        truth = half.ended[name]
        assert (fate.phase, fate.kept, fate.is_promised) == (truth.phase, truth.kept, truth.is_promised)
        assert fate.finish_s == pytest.approx(truth.finished_s, abs=1.5)


def test_fixed_jobs_run_to_their_limits_and_bookings_are_kept_free() -> None:
    """As those that are as long as their limits really do; one that waits, waits for what is booked."""
    booking = Booking(id="b", num_devices=8, times_s=((700.0, 900.0),))
    jobs = [
        job("elastic", 0.0, 3000),
        fixed("runs", 10.0, 4, 500, time_s=500.0),
        fixed("waits", 20.0, 6, 400, time_s=400.0),
        fixed("session", 30.0, 2, 100, time_s=100.0, is_session=True),
    ]
    half = Half(jobs, 100.25, "unified", [BookingMade(at_s=50.0, booking=booking)])
    standing = half.standing
    believed = {one.id: sim_job(one, FittedBelief(), 8) for one in standing.saved.records if one.spec.fixed}
    told = go_on(head("unified"), replace(standing, jobs=standing.jobs | believed), PlatformChange())
    assert told.keys() == {"elastic", "runs", "waits", "session"} and {
        one.phase for one in told.values()
    } == {Phase.SUCCEEDED}
    for name, fate in told.items():
        assert fate.finish_s == pytest.approx(half.ended[name].finished_s, abs=1.5), name
    assert told["runs"].finish_s == pytest.approx(510.0, abs=10.0)
    assert told["waits"].finish_s == pytest.approx(1300.0, abs=10.0)


@st.composite
def mixed_halves(draw: st.DrawFn) -> Half:
    """Up to eight jobs of all classes and priorities, with time for all of them or for few."""
    jobs = []
    for number in range(draw(st.integers(2, 8))):
        kind, steps = draw(st.sampled_from([*JobClass, JobClass.BEST_EFFORT])), draw(st.integers(20, 1500))
        until_s = 60.0 + steps * draw(st.sampled_from([0.4, 1.0, 4.0]))
        one = job(
            f"job{number}", draw(st.integers(0, 60)), steps, None if kind is JobClass.BEST_EFFORT else until_s
        )
        priority = draw(st.sampled_from([0, 0, 5, -3]))
        jobs.append(replace(one, spec=msgspec.structs.replace(one.spec, job_class=kind, priority=priority)))
    return Half(jobs, draw(st.integers(61, 300)) + 0.25, draw(st.sampled_from((*POLICIES, "unified", "hu"))))


@pytest.mark.slow
@settings(max_examples=share_of_examples(0.4), deadline=None)
@given(half=mixed_halves())
def test_jobs_are_told_the_ends_that_what_if_tells(half: Half) -> None:
    """As well as `test_what_is_foretold_is_what_becomes_of_the_jobs`, and a little for what rounds decide."""
    for name, fate in half.if_().items():
        view = half.told[name]
        if fate.finish_s is None or view.estimated_finish_s is None:
            assert fate.finish_s == view.estimated_finish_s or not is_measured(view)
            continue
        assert view.estimated_finish_s == pytest.approx(fate.finish_s, rel=0.02, abs=3.0)


@pytest.fixture
def _periodic_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    example = next(policy for policy in from_the_guide() if policy.name == PERIODIC)
    monkeypatch.setitem(registry.POLICIES.own, PERIODIC, type(example))


@pytest.mark.usefixtures("_periodic_shares")
@pytest.mark.parametrize("cut_s", [61.25, 130.25, 299.25, 300.25, 455.25])
def test_a_policy_with_a_memory_goes_on_as_it_would_have(cut_s: float) -> None:
    jobs = [job(f"job{number}", 15.0 * number, steps=300 + 200 * number) for number in range(4)]
    half = Half(jobs, cut_s, PERIODIC)
    assert half.standing.saved.policy_state.memory["workers"]
    told = half.if_()
    assert told.keys() == half.ended.keys() - half.ended_before
    for name, fate in told.items():
        assert fate.finish_s == pytest.approx(half.ended[name].finished_s, abs=1.5)


@pytest.mark.usefixtures("_periodic_shares")
def test_asked_for_another_policy_it_begins_without_memory() -> None:
    half = Half([job("a", steps=400), job("b", steps=400)], 130.25)
    told = half.if_(policy=PERIODIC)
    assert all(fate.phase is Phase.SUCCEEDED for fate in told.values())


def test_asking_leaves_no_trace() -> None:
    half = Half([job("a", steps=400), job("b", steps=400)], 30.25)
    before, standing = half.state, half.standing
    first = go_on(head(), standing, PlatformChange(policy="fifo", nodes=(node("more"),)))
    assert standing.saved == read_platform(before).kinds[0].saved
    assert go_on(head(), standing, PlatformChange(policy="fifo", nodes=(node("more"),))) == first

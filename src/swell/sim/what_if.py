"""What becomes of jobs of a live platform from now on: a simulated world that begins with its state."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from swell.arrays import FloatArray, IntArray
from swell.core import loop
from swell.core.costs import CROWDING_SHARE, TRIED_FAMILY, UNTRIED_FAMILY, CostTable, cell_of
from swell.core.kinds import SavedKind, SavedPlatform
from swell.core.platform_core import PlatformCore
from swell.core.record import JobRecord
from swell.core.sizes import job_sizes
from swell.core.state import Saved
from swell.core.table import LEAST_REMAINING_SHARE, LEAST_REMAINING_STEPS
from swell.model.coding import encode
from swell.model.command import AnyCommand, WakeAt
from swell.model.event import AnyEvent, JobSubmitted, NodeJoined, NodeWarned, Opened
from swell.model.failure import why_failed
from swell.model.job import Phase, Profile
from swell.model.node import Node
from swell.model.options import Sizes
from swell.model.target import ShareKind
from swell.model.view import JobView
from swell.sim.change_cost import MeasuredCost
from swell.sim.gang import SharedCores, SimGang
from swell.sim.gangs import GangTimes
from swell.sim.job import SimJob
from swell.sim.simulate import TurnLog
from swell.sim.true_speed import TrueRates
from swell.sim.world import Scenario, SimulatedWorld
from swell.throughput.belief import FittedBelief
from swell.throughput.curve import NO_CROSSING, Crossing

#: Between two reports of a gang that shares cores: live ones make more, and a forecast should be quick.
REPORT_S = 60.0
#: What is believed of gangs on more hosts is taken to be as of so many.
MOST_HOSTS = 8
#: Share of its limit of time after which a fixed job that takes the longest ends by itself.
WITHIN_LIMIT = 0.999
#: Workers. Policies may choose any size; of larger gangs those between two powers of two are interpolated.
EVERY_UP_TO = 64


class PlatformWorld(SimulatedWorld):
    """Gangs train on from where they are believed to be, and what was commanded is under way.

    Args:
        scenario: with the jobs of `standing`; of others, which the head does not know, events tell.
        under_way: `PlatformCore.under_way` of the head that goes on in this world.
    """

    def __init__(
        self,
        standing: PlatformState,
        under_way: Sequence[AnyCommand],
        scenario: Scenario,
        end_turn: Callable[[float], None],
    ) -> None:
        self._standing, self._under_way = standing, under_way
        super().__init__(scenario, end_turn)

    def _open(self, nodes: Sequence[Node]) -> None:
        """Take nodes and jobs over without events: the head knows them."""
        standing = self._standing
        records = {record.id: record for record in standing.saved.records}
        for record in records.values():
            gang = standing.gang(record)
            if record.phase in (Phase.RUNNING, Phase.STOPPING):
                self.all_gangs.adopt(gang, standing.now_s)
            else:
                self.all_gangs.shelve(gang)
        for command in self._under_way:
            if not isinstance(command, WakeAt):
                self.now_s = asked_s(records[command.job_id], standing.now_s)
            self.perform(command)
        self.now_s = standing.now_s


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformChange:
    """What is to be different from now on."""

    policy: str = ""  #: empty: the same
    nodes: tuple[Node, ...] = ()  #: that join
    drained: tuple[str, ...] = ()  #: names of nodes that take no more work, and that jobs leave
    jobs: tuple[SimJob, ...] = ()  #: that are submitted


class JobForecast(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of one job."""

    phase: Phase  #: one that is no end: it does not come to one
    finish_s: float | None  #: None: never, or it was refused
    is_promised: bool
    kept: bool | None  #: ends at or before its deadline; None without one, refused or cancelled
    counter_offer_s: float | None  #: refused: the earliest deadline that could be promised
    reason: str
    is_unpromised: bool = False  #: refused a promise, and tried all the same


def go_on(core: PlatformCore, standing: PlatformState, change: PlatformChange) -> dict[str, JobForecast]:
    """Let a fresh head go on from where another stands, in a simulated world, until every job has ended.

    Returns what becomes of each job, by id.
    """
    nodes = [*standing.saved.cluster.nodes, *change.nodes]
    kind = nodes[0].kind if nodes else ""
    head = msgspec.Raw(encode(standing.saved))
    core.load(msgspec.json.encode(SavedPlatform(kinds=[SavedKind(kind=kind, head=head)])))
    recorder = TurnLog(core)

    def end_turn(now_s: float) -> None:
        recorder.end_turn(now_s, world)

    scenario = Scenario(
        nodes=standing.saved.cluster.nodes,
        jobs=[*standing.jobs.values(), *change.jobs],
        cost=as_learnt(standing.saved.costs),
        timings=_timings(nodes),
        others=_events(standing, change),
    )
    world = PlatformWorld(standing, core.under_way(), scenario, end_turn)
    loop.run(world, recorder, core)
    views = recorder.ended | {view.id: view for view in core.views()}
    return {job_id: _fate(view) for job_id, view in views.items()}


def _timings(nodes: Sequence[Node]) -> GangTimes:
    """Where jobs share cores, how fast they go depends on others, and is reported."""
    shares_cores = any(node.cores is not None for node in nodes)
    return GangTimes(report_s=REPORT_S) if shares_cores else GangTimes()


def as_learnt(costs: CostTable) -> MeasuredCost:
    """Changes cost what the head has learnt that those of small jobs cost."""
    small = cell_of(2)
    return MeasuredCost(
        pause_s=costs.medians_s(TRIED_FAMILY, "growth")[small],
        state_bytes_per_s=1.0 / costs.state_s_per_byte,
        crowding_share=CROWDING_SHARE,
        order_s=costs.medians_s(TRIED_FAMILY, "start")[small],
        unprofiled_start_s=costs.medians_s(UNTRIED_FAMILY, "start")[small],
        restart_s=costs.medians_s(UNTRIED_FAMILY, "growth")[small],
    )


def _events(standing: PlatformState, change: PlatformChange) -> list[AnyEvent]:
    """All at once, now. A platform that is down is taken to come up."""
    now_s, happening = standing.now_s, list[AnyEvent]()
    if change.policy or standing.saved.is_draining:
        happening.append(Opened(at_s=now_s, policy=change.policy))
    happening += [NodeJoined(at_s=now_s, node=node) for node in change.nodes]
    happening += [NodeWarned(at_s=now_s, name=name, why="what if") for name in change.drained]
    happening += [JobSubmitted(at_s=now_s, job_id=job.id, spec=job.spec) for job in change.jobs]
    return happening


def _fate(view: JobView) -> JobForecast:
    is_open = not view.phase.is_end
    return JobForecast(
        phase=view.phase,
        finish_s=None if view.phase is Phase.REJECTED else view.finished_s,
        is_promised=view.is_promised,
        kept=False if is_open and view.deadline_s is not None else view.kept,
        counter_offer_s=view.counter_offer_s,
        reason=view.refusal or why_failed(view),
        is_unpromised=view.is_unpromised,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformState:
    """State of a head, and what is taken for true of its jobs: what the head believes of them."""

    now_s: float
    saved: Saved
    jobs: dict[str, SimJob]  #: by id, one for each record

    def gang(self, record: JobRecord) -> SimGang:
        """The job's workers, or what its next ones will go on from."""
        job = self.jobs[record.id]
        gang = record.gang
        target = gang.goal if gang.is_launching else gang.members
        node_of = self.saved.cluster.node_of
        training = SimGang(job, gang.generation, target.devices, as_of_s=self.now_s, node_of=node_of)
        training.configuration = target.configuration
        training.steps = training.saved_steps = _steps(record, self.now_s)
        training.formed_s = self.now_s
        training.known_sets = {frozenset(training.devices)}
        if record.phase.holds_devices and record.progress.rate_per_s > 0.0:
            training.rate_per_s = training.true_rate_per_s
        if record.begun_s is not None and training.devices:
            training.formed_s, training.rate_per_s = record.begun_s, training.true_rate_per_s
            done = (self.now_s - record.begun_s) * training.rate_per_s
            training.steps = min(done, job.num_steps - LEAST_REMAINING_STEPS)
        return training


def undisturbed(standing: PlatformState) -> PlatformState:
    """The same with jobs as fast as they would be alone: what gangs have reported is their speed beside those
    with which they share cores.
    """
    cores = SharedCores(ShareKind.WEIGHT)
    for node in standing.saved.cluster.nodes:
        if node.cores is not None:
            cores.add(node, node.cores)
    for record in standing.saved.records:
        cores.note(standing.gang(record))
    paces = {gang.job.id: pace for gang, pace in cores.settle(standing.now_s)}
    jobs = dict(standing.jobs)
    for record in standing.saved.records:
        if record.id in paces and record.progress.reported is not None:
            speed = jobs[record.id].speed.times(1.0 / paces[record.id])
            jobs[record.id] = replace(jobs[record.id], speed=speed)
    return replace(standing, jobs=jobs)


@dataclass(frozen=True, slots=True)
class BatchBelief:
    """See `sim.job.TrueBatches`: an open batch, as it is believed of a live job."""

    job_id: str
    belief: FittedBelief

    def rate_per_s(self, workers: int, global_batch: int, steps: float) -> float:
        return self.belief.of(self.job_id).rate_at_batch(workers, global_batch)

    def noise_scale(self, global_batch: int, steps: float) -> float:
        """It stays what gangs have measured so far."""
        known = self.belief.of(self.job_id).noise_scale
        return math.inf if known is None else known

    def epoch_end(self, steps: float) -> float:
        return math.inf


def sim_job(record: JobRecord, belief: FittedBelief, num_devices: int) -> SimJob:
    """The job as it is believed to be, on a cluster of so many devices at most.

    Raises:
        ValueError: nothing is believed of it: it has not been measured, or it has no size on this cluster.
    """
    sizes = _told_sizes(job_sizes(record.spec, num_devices, Sizes.EVERY))
    if record.spec.fixed is not None and sizes.size:
        return _fixed_job(record, record.spec.fixed.time_s, sizes)
    rate_per_s = belief.of(record.id).rates_per_s(sizes)
    sizes, rate_per_s = sizes[rate_per_s > 0.0], rate_per_s[rate_per_s > 0.0]
    if record.progress.total_steps is None or not sizes.size:
        raise ValueError(f"of job {record.id!r} it is not known how long it is, or how fast it would go")
    return SimJob(
        id=record.id,
        submit_s=record.submitted_s,
        spec=record.spec,
        profile=record.profile or _no_profile(),
        speed=TrueRates(sizes, rate_per_s, crossing=_crossing(record, belief, sizes, rate_per_s)),
        batches=None if record.spec.max_batch is None else BatchBelief(record.id, belief),
        num_steps=max(1, math.ceil(record.progress.total_steps)),
        model=record.spec.name,
    )


def _fixed_job(record: JobRecord, limit_s: float, sizes: IntArray) -> SimJob:
    """It is believed to take as long as others of its name, or else nearly all the time that it may take."""
    length_s = min(record.spec.estimate_s or limit_s, WITHIN_LIMIT * limit_s)
    num_steps = max(1, round(length_s))
    speed = TrueRates(sizes, np.full(sizes.shape, num_steps / length_s))
    return SimJob(
        id=record.id,
        submit_s=record.submitted_s,
        spec=record.spec,
        profile=_no_profile(),
        speed=speed,
        num_steps=num_steps,
        model=record.spec.name,
    )


def _told_sizes(sizes: IntArray) -> IntArray:
    """Every size of small gangs; of large ones the powers of two and the largest, with lines between them."""
    is_told = (sizes <= EVERY_UP_TO) | ((sizes & (sizes - 1)) == 0)
    is_told[-1:] = True
    told: IntArray = sizes[is_told]
    return told


def _crossing(record: JobRecord, belief: FittedBelief, sizes: IntArray, rate_per_s: FloatArray) -> Crossing:
    """What is believed of its gangs on several hosts."""
    if not belief.of(record.id).depends_on_hosts:
        return NO_CROSSING
    believed: dict[int, dict[int, float]] = {}
    for num_hosts in range(2, MOST_HOSTS + 1):
        crossing_per_s = belief.of(record.id).rates_per_s(sizes, np.full_like(sizes, num_hosts))
        extra_s = np.maximum(1.0 / crossing_per_s - 1.0 / rate_per_s, 0.0)
        believed[num_hosts] = dict(zip(sizes.tolist(), extra_s.tolist(), strict=True))
    return believed


def asked_s(record: JobRecord, now_s: float) -> float:
    """Since when the workers of a launch or a resize that is under way have been starting."""
    is_coming = not record.gang.is_ending and record.gang.state in ("launching", "changing")
    return min(record.commanded.asked_s, now_s) if is_coming else now_s


def _steps(record: JobRecord, now_s: float) -> float:
    """Done by now as far as is believed; what should have ended by now is about to."""
    progress = record.progress
    total = progress.total_steps or 0.0
    least = LEAST_REMAINING_STEPS if record.spec.counts_steps else LEAST_REMAINING_SHARE * total
    return max(progress.counted_steps, min(progress.believed_steps(now_s), total - least))


def _no_profile() -> Profile:
    """Return the empty profile of a job that Swell cannot see into."""
    return Profile(
        device_kind="",
        compute_s={},
        allreduce_s={},
        grad_bytes=0,
        state_bytes=0,
        samples_per_epoch=0,
        start_s=0.0,
    )

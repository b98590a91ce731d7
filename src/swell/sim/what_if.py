"""What becomes of the jobs of a live platform from now on: a simulated world that begins where it stands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import msgspec

from swell.core import loop
from swell.core.costs import CROWDING_SHARE, TRIED_FAMILY, UNTRIED_FAMILY, CostTable, cell_of
from swell.core.kinds import SavedKind, SavedPlatform
from swell.core.platform_core import PlatformCore
from swell.model.coding import encode
from swell.model.command import AnyCommand, WakeAt
from swell.model.event import AnyEvent, JobSubmitted, NodeJoined, NodeWarned, Opened
from swell.model.failure import why_failed
from swell.model.job import Phase
from swell.model.node import Node
from swell.model.share_mode import ShareMode
from swell.model.view import JobView
from swell.sim.change_cost import ChangeCost, MeasuredCost
from swell.sim.gangs import GangTimings
from swell.sim.job import SimJob
from swell.sim.platform_state import PlatformState, asked_s
from swell.sim.recorder import TurnRecorder
from swell.sim.world import SimulatedWorld


class ResumedWorld(SimulatedWorld):
    """Gangs train on from where they are believed to be, and what was commanded is under way.

    Args:
        under_way: `PlatformCore.under_way` of the head that goes on in this world.
        jobs: further ones, which the head does not know; `others` tells of their submissions.
        others: what else happens, each at its time.
        cpu_shares: how gangs divide the cores of nodes.
    """

    def __init__(
        self,
        standing: PlatformState,
        under_way: Sequence[AnyCommand],
        cost: ChangeCost,
        jobs: Sequence[SimJob] = (),
        others: Iterable[AnyEvent] = (),
        end_turn: Callable[[float], None] = lambda now_s: None,
        timings: GangTimings | None = None,
        cpu_shares: ShareMode = ShareMode.WEIGHT,
    ) -> None:
        self._standing = standing
        self._under_way = under_way
        everybody = [*standing.jobs.values(), *jobs]
        nodes = standing.saved.cluster.nodes
        super().__init__(nodes, everybody, cost, timings, others, end_turn, cpu_shares=cpu_shares)

    def _open(self, nodes: Sequence[Node], jobs: Iterable[SimJob], others: Iterable[AnyEvent]) -> None:
        """Take nodes and jobs over without events: the head knows them."""
        self._jobs = {job.id: job for job in jobs}
        self._take_over()
        for event in others:
            self.expect(event)

    def _take_over(self) -> None:
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


#: Between two reports of a gang that shares cores: live ones make more, and a forecast should be quick.
REPORT_S = 60.0


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
    recorder = TurnRecorder(core)

    def end_turn(now_s: float) -> None:
        recorder.end_turn(now_s, world.all_gangs)

    world = ResumedWorld(
        standing,
        core.under_way(),
        as_learnt(standing.saved.costs),
        change.jobs,
        _events(standing, change),
        end_turn,
        _timings(nodes),
    )
    loop.run(world, recorder, core)
    views = recorder.ended | {view.id: view for view in core.views()}
    return {job_id: _fate(view) for job_id, view in views.items()}


def _timings(nodes: Sequence[Node]) -> GangTimings:
    """Where jobs share cores, how fast they go depends on others, and is reported."""
    shares_cores = any(node.cores is not None for node in nodes)
    return GangTimings(report_s=REPORT_S) if shares_cores else GangTimings()


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

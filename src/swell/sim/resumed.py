"""A simulated world that begins where a live one stands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from swell.model.command import AnyCommand, WakeAt
from swell.model.job import Phase
from swell.model.node import Node
from swell.model.share_mode import ShareMode
from swell.sim.change_cost import ChangeCost
from swell.sim.gangs import GangTimings
from swell.sim.job import SimJob
from swell.sim.occurrence import Occurrence
from swell.sim.platform_state import PlatformState, asked_s
from swell.sim.world import SimulatedWorld


class ResumedWorld(SimulatedWorld):
    """Gangs train on from where they are believed to be, and what was commanded is under way.

    Args:
        under_way: `PlatformCore.under_way` of the head that goes on in this world.
        jobs: further ones, which the head does not know; `others` tells of their submissions.
        others: what else happens: (time, occurrence).
        cpu_shares: how gangs divide the cores of nodes.
    """

    def __init__(
        self,
        standing: PlatformState,
        under_way: Sequence[AnyCommand],
        cost: ChangeCost,
        jobs: Sequence[SimJob] = (),
        others: Iterable[tuple[float, Occurrence]] = (),
        end_turn: Callable[[float], None] = lambda now_s: None,
        timings: GangTimings | None = None,
        cpu_shares: ShareMode = ShareMode.WEIGHT,
    ) -> None:
        self._standing = standing
        self._under_way = under_way
        everybody = [*standing.jobs.values(), *jobs]
        nodes = standing.saved.cluster.nodes
        super().__init__(nodes, everybody, cost, timings, others, end_turn, cpu_shares=cpu_shares)

    def _open(
        self, nodes: Sequence[Node], jobs: Iterable[SimJob], others: Iterable[tuple[float, Occurrence]]
    ) -> None:
        """Nothing is told: the head knows all this."""
        self._jobs = {job.id: job for job in jobs}
        self._take_over()
        for at_s, occurrence in others:
            self.expect(at_s, occurrence)

    def _take_over(self) -> None:
        standing = self._standing
        records = {record.id: record for record in standing.saved.records}
        for record in records.values():
            gang = standing.gang(record)
            if record.phase in (Phase.RUNNING, Phase.STOPPING):
                self._gangs.adopt(gang, standing.now_s)
            else:
                self._gangs.shelve(gang)
        for command in self._under_way:
            if not isinstance(command, WakeAt):
                self.now_s = asked_s(records[command.job_id], standing.now_s)
            self.perform(command)
        self.now_s = standing.now_s

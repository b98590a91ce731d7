"""A live run on borrowed machines again, simulated: the same intervals and jobs, and delays as measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from swell.model.view import JobView
from swell.settings import make_settings
from swell.sim.occurrence import NodeFails, NodeReturns, Occurrence
from swell_papers.job_twin import JobTwin, moved_share
from swell_papers.reclaim_record import NodeSeen, ProgressSample, ReclaimRun
from swell_papers.simulated_rerun import measured_cost, measured_timings, simulate

#: Of speeds, and of the delays of nodes, by which simulations are disturbed.
NOISE_SHARE, DELAY_SHARE, NUM_NOISY = 0.005, 0.15, 5


class NodeDelays(msgspec.Struct, frozen=True, kw_only=True):
    """Means of a live run, in seconds."""

    join_s: float  #: from the beginning of an interval until the node has joined: a process starts
    notice_s: float  #: from the reclaim of a node until the head hears that it is lost: its lease ends


@dataclass(frozen=True, slots=True, kw_only=True)
class ReclaimComparison:
    """A live run beside its simulation."""

    run: ReclaimRun
    delays: NodeDelays
    twins: tuple[JobTwin, ...]
    progress: tuple[ProgressSample, ...]  #: of the simulation
    chance_share: float  #: by how much noise in speeds and delays alone moves completion times, on average

    @property
    def mean_error_share(self) -> float | None:
        """Mean absolute error of completion times as a share of the live ones.

        It is over jobs that succeeded in both runs; None if no job did.
        """
        errors = [abs(twin.error_share) for twin in self.twins if twin.error_share is not None]
        return float(np.mean(errors)) if errors else None

    def live_samples(self, at_s: float) -> float:
        return _at(self.run.ended.progress, at_s)

    def simulated_samples(self, at_s: float) -> float:
        return _at(self.progress, at_s)


def compare(run: ReclaimRun) -> ReclaimComparison:
    """Speeds are those of trial runs, costs of changes and delays of nodes the means of the live run."""
    live, delays = run.ended.run, measured_delays(run)
    progress: list[ProgressSample] = []

    def note(now_s: float, views: Sequence[JobView]) -> None:
        begun = [view for view in views if view.submitted_s >= live.begun_s]
        done = sum(view.steps * view.global_batch for view in begun)
        progress.append(ProgressSample(at_s=now_s - live.begun_s, num_samples=done))

    views = _simulated(run, delays, note=note)
    disturbed = [
        _simulated(run, other, noise_share=NOISE_SHARE, seed=seed)
        for seed, other in enumerate(_disturbed(delays))
    ]
    return ReclaimComparison(
        run=run,
        delays=delays,
        twins=tuple(JobTwin(live=job, simulated=views[job.view.id]) for job in live.jobs),
        progress=tuple(progress),
        chance_share=float(np.mean([moved_share(views, others) for others in disturbed])),
    )


def _simulated(
    run: ReclaimRun,
    delays: NodeDelays,
    noise_share: float = 0.0,
    seed: int = 0,
    note: Callable[[float, Sequence[JobView]], None] | None = None,
) -> dict[str, JobView]:
    """See `simulate`."""
    live = run.ended.run
    timings = replace(
        measured_timings(live),
        notice_s=delays.notice_s,
        checkpoint_interval_s=run.settings.get("checkpoint_interval_s"),
    )
    return simulate(
        live,
        measured_cost(live),
        timings,
        noise_share=noise_share,
        seed=seed,
        nodes=tuple(node_changes(run, delays)),
        settings=make_settings(run.settings),
        note=note,
    )


def _disturbed(delays: NodeDelays) -> Iterator[NodeDelays]:
    """Yield delays that other runs may have: the measured ones, multiplied by factors around 1."""
    for factor in np.linspace(1.0 - DELAY_SHARE, 1.0 + DELAY_SHARE, NUM_NOISY).tolist():
        yield NodeDelays(join_s=factor * delays.join_s, notice_s=factor * delays.notice_s)


def measured_delays(run: ReclaimRun) -> NodeDelays:
    """0 of what did not happen. A node that was taken back before it had joined tells nothing."""
    seen = run.ended.seen
    joins_s, losses_s = [], []
    for one in run.intervals:
        joined_s = _first(seen, one.node, True, one.start_s)
        if one.start_s and joined_s is not None and joined_s < one.end_s:
            joins_s.append(joined_s - one.start_s)
    for gone in run.reclaimed:
        lost_s = _first(seen, gone.node, False, gone.sent_s)
        if lost_s is not None and _is_there(seen, gone.node, gone.sent_s):
            losses_s.append(lost_s - gone.sent_s)
    return NodeDelays(join_s=_mean(joins_s), notice_s=_mean(losses_s))


def node_changes(run: ReclaimRun, delays: NodeDelays) -> Iterator[tuple[float, Occurrence]]:
    """Yield when nodes come and go, in seconds of head time."""
    begun_s = run.ended.run.begun_s
    nodes = {node.name: node for node in run.ended.run.nodes}
    for one in run.intervals:
        joined_s = one.start_s + delays.join_s
        if one.start_s > 0.0 and joined_s < one.end_s:
            yield begun_s + joined_s, NodeReturns(nodes[one.node])
        yield begun_s + one.end_s, NodeFails(one.node)


def _first(seen: Sequence[NodeSeen], node: str, has_joined: bool, from_s: float) -> float | None:
    """When the head first heard that of the node, from then on; None: it did not."""
    told_s = (one.at_s for one in seen if (one.node, one.has_joined) == (node, has_joined))
    return next((at_s for at_s in told_s if at_s >= from_s), None)


def _is_there(seen: Sequence[NodeSeen], node: str, at_s: float) -> bool:
    """Whether the head had heard last that it has joined."""
    told = [one.has_joined for one in seen if one.node == node and one.at_s <= at_s]
    return bool(told) and told[-1]


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else 0.0


def _at(progress: Sequence[ProgressSample], at_s: float) -> float:
    """The latest number by then."""
    return next((one.num_samples for one in reversed(progress) if one.at_s <= at_s), 0.0)

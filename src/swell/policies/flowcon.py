"""FlowCon: jobs that share a node get CPU by how much they are still learning.

And what is alike in all policies that divide cores.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, Protocol, TypeVar

import msgspec
import numpy as np
from msgspec import Meta

from swell.arrays import FloatArray, IntArray
from swell.model.options import NO_OPTION, Domain, SizeOptions
from swell.model.plan import Allocation
from swell.model.snapshot import Learning, Snapshot
from swell.policies.levels import Levels, levels_of
from swell.policies.policy import Policy
from swell.policies.unpromised import without_promises
from swell.solvers.marginal import serve_in_order
from swell.solvers.queueing import fair_ends

#: A gang that is launched now is on its node when the policy is asked again, this long from now.
LAUNCHED_S = 0.1
#: After so many measurements without a number a job counts as one that does not report.
BLIND_MISSES = 2
#: With less CPU time a job has done nothing, or has not reported.
LEAST_CPU_S = 1e-6
#: A job that has shown no progress in so many measurements in a row, from its first one on, is told of.
FLAT_RUNS = 3


def requested_levels(snapshot: Snapshot) -> Levels:
    """Levels of which each job has one at most, as (J, 1) columns.

    It is the largest size the job may have that is not above what was requested; if there is none, the
    smallest it may have. A size is given as asked for, even where a smaller one would be faster.
    """
    options = snapshot.options
    asked = options.at(snapshot.requested_workers)
    has_any = options.num > 0
    chosen = np.where(asked == NO_OPTION, options.starts[:-1], asked)[has_any]
    option, workers, devices = np.zeros((3, snapshot.num_jobs, 1), dtype=np.int64)
    rates = np.zeros((snapshot.num_jobs, 1))
    option[has_any, 0], rates[has_any, 0] = chosen, options.rate_per_s[chosen]
    workers[has_any, 0], devices[has_any, 0] = options.workers[chosen], options.devices[chosen]
    return levels_of(snapshot, SizeOptions(option, workers, devices, rates, has_any.astype(np.int64)))


class SharingJob(msgspec.Struct, omit_defaults=True):
    """What a policy remembers of a job that shares a node."""

    share: float = 1.0  #: CPU share of the job, in (0, 1]
    misses: int = 0  #: measurements in a row in which there was nothing to measure

    @property
    def is_blind(self) -> bool:
        """It learns unseen; a job that has just begun may have nothing to tell yet."""
        return self.misses >= BLIND_MISSES

    @property
    def is_told_flat(self) -> bool:
        """It is seen, and has shown no progress so far. Once it has, this is never so again."""
        raise NotImplementedError


class SharedNode(Protocol):
    """What a policy remembers of a node."""

    members: dict[str, Any]  #: by id, the sharing jobs that go on there
    due_s: float  #: when the policy is to look at it next


Node = TypeVar("Node", bound=SharedNode)


@dataclass(frozen=True)
class RunningJobs:
    """Which jobs run, and at which sizes. Slots stay exclusive; only cores are shared."""

    levels: Levels
    level: IntArray  #: (J,)
    order: IntArray  #: (J,) rows in order of service
    nodes: Mapping[str, list[int]]  #: by name of a node, rows by id of the jobs that go on there
    launched: list[str]  #: ids of jobs that get slots now, in order
    learning: Learning  #: the snapshot's
    why_waits: str  #: a job without slots, as a part of a sentence


def first_come(snapshot: Snapshot) -> RunningJobs:
    """Each job at the size that it asked for, in order of arrival. Raises TypeError as `running_slots`."""
    levels = requested_levels(snapshot)
    level = np.zeros(snapshot.num_jobs, dtype=np.int64)
    order = snapshot.arrival_order
    serve_in_order(level, levels.devices, levels.num, order, snapshot.num_devices)
    waits = "earlier jobs hold the devices, and no job may overtake"
    return running_slots(snapshot, levels, level, order, waits)


def running_slots(
    snapshot: Snapshot, levels: Levels, level: IntArray, order: IntArray, why_waits: str
) -> RunningJobs:
    """Jobs at these levels (J,).

    A gang on several nodes, or on none yet, is no neighbour of any other.

    Raises:
        TypeError: the policy does not declare that it divides cores.
    """
    learning = snapshot.learning
    if learning is None:
        raise TypeError(
            "the snapshot has no learning: a policy that divides cores declares Domain(shares_cores=True)"
        )
    nodes: dict[str, list[int]] = {}
    on_node = (level > 0) & (snapshot.held_workers > 0) & (learning.node >= 0)
    for row in sorted(np.flatnonzero(on_node).tolist(), key=snapshot.job_ids.__getitem__):
        nodes.setdefault(learning.node_names[learning.node[row]], []).append(row)
    is_launched = (level > 0) & (snapshot.held_workers == 0)
    launched = sorted(snapshot.job_ids[row] for row in np.flatnonzero(is_launched).tolist())
    return RunningJobs(levels, level, order, nodes, launched, learning, why_waits)


def divided(
    snapshot: Snapshot,
    slots: RunningJobs,
    name: str,
    kind: type[Node],
    follow: Callable[[Node, dict[str, int]], Node],
    why_share: Callable[[int, Any], str],
) -> Allocation:
    """The answer that divides the cores of each node among the jobs that go on there.

    Other jobs that run have share 1. If a gang is launched, the policy is to be asked again soon: from then
    on it has neighbours.

    Args:
        name: under which nodes are remembered.
        follow: makes of what is remembered of a node what is to be, by its jobs: rows by id.
        why_share: a row, and what is remembered of its job.
    """
    before = msgspec.convert(snapshot.memory.get(name, {}), dict[str, kind])  # type: ignore[valid-type]
    nodes, sharers = dict[str, Node](), dict[int, SharingJob]()
    for node, rows in slots.nodes.items():
        ids = {snapshot.job_ids[row]: row for row in rows}
        nodes[node] = follow(before.get(node) or kind(), ids)
        sharers |= {row: nodes[node].members[job_id] for job_id, row in ids.items()}
    wake_s = min((one.due_s for one in nodes.values()), default=math.inf)
    share = np.where(slots.level > 0, 1.0, np.nan)
    for row, sharer in sharers.items():
        share[row] = sharer.share
    # Jobs that show no learning have a code of their own, so that it is told once.
    codes = {row: "blind" for row, sharer in sharers.items() if sharer.is_blind}
    codes |= {row: "flat" for row, sharer in sharers.items() if sharer.is_told_flat and row not in codes}

    def why(row: int) -> str:
        if row not in sharers:
            return f"CPU share {100 * share[row]:.3g} %: no job is known to share its cores yet"
        return f"CPU share {100 * share[row]:.3g} %: {why_share(row, sharers[row])}"

    ends_s = equal_ends(snapshot, slots)
    plain = without_promises(
        snapshot, slots.levels, slots.level, slots.order, why, slots.why_waits, ends_s, codes
    )
    is_news = slots.launched and slots.launched != snapshot.memory.get("launched")
    return replace(
        plain,
        share=share,
        wake_s=min(wake_s, snapshot.now_s + LAUNCHED_S) if is_news else wake_s,
        memory={name: msgspec.to_builtins(nodes), "launched": slots.launched},
    )


def equal_ends(snapshot: Snapshot, slots: RunningJobs) -> FloatArray:
    """(J,) seconds from now until jobs end that share too few cores, if all had equal parts of these.

    What a job is seen to do now depends on a share that it has for a moment. NaN: its node has a core for
    each worker, or its CPU time is not measured.
    """
    ends_s = np.full(snapshot.num_jobs, np.nan)
    cpu_s, done = slots.learning.cpu_s, snapshot.done_steps
    is_known = (cpu_s > 0.0) & (done > 0.0)
    left_s = np.divide(snapshot.remaining_steps * cpu_s, done, out=np.full(len(done), np.inf), where=is_known)
    held_devices = snapshot.held_workers * snapshot.devices_per_worker
    for rows in slots.nodes.values():
        cores, devices = float(slots.learning.cores[rows[0]]), held_devices[rows]
        if not devices.sum() > cores:  # or they are not known
            continue
        together_s = fair_ends(left_s[rows]) / cores
        alone_s = left_s[rows] / devices
        ends_s[rows] = np.where(is_known[rows], np.maximum(together_s, alone_s), np.nan)
    return ends_s


def equal_part(seen: Iterable[float]) -> float:
    """The share of jobs whose learning is not seen: as a weight it gives each of them 1 / jobs of the cores.

    Args:
        seen: shares of all other jobs; with none all are alike.
    """
    shares = list(seen)
    return math.fsum(shares) / len(shares) if shares else 1.0


def why_flat(learning: Learning, row: int) -> str:
    """Text for a job whose metric has not improved since it was first measured."""
    way = "up" if learning.rises[row] else "down"
    return f"its metric has not improved since it is measured, where it is to go {way}"


def why_blind(learning: Learning, row: int) -> str:
    """Text for a job whose progress cannot be measured, for lack of a usable metric value or of usage."""
    if np.isnan(learning.value_s[row]):
        return "it has never reported its metric"
    if np.isnan(learning.value[row]):
        return "its metric is not a finite number"
    return "its CPU time is not measured"


#: The lists: NL, young and quickly growing; WL, near convergence; CL, converging and growing slowly.
NEW, WATCHING, COMPLETING = "new", "watching", "completing"
#: Shares are rounded to so many digits: a smaller change is not worth a command.
SHARE_DIGITS = 3


class Container(SharingJob, omit_defaults=True):
    """What is remembered of a job, whose share is L, and whose misses are runs of Algorithm 1."""

    group: str = NEW  #: its list
    at_s: float = 0.0  #: of the latest measurement, as are the next two
    value: float | None = None  #: E
    told_s: float | None = None  #: when that was reported
    cpu_s: float = 0.0
    growth: float | None = None  #: G by Eq. 2; None: not measured yet
    best: float = 0.0  #: highest G so far
    num_flat: int = 0  #: measurements before the first in which the metric improved

    @property
    def is_told_flat(self) -> bool:
        return self.best == 0.0 and self.num_flat >= FLAT_RUNS

    @property
    def growth_share(self) -> float:
        """G as a part of the job's own best; one that has not been measured is at its best."""
        if self.growth is None:
            return 1.0
        return self.growth / self.best if self.best > 0.0 else 0.0


class Worker(msgspec.Struct, omit_defaults=True):
    """What is remembered of a node, W_i."""

    members: dict[str, Container] = {}
    interval_s: float = 0.0  #: itval
    due_s: float = 0.0  #: when Algorithm 1 runs next


class FlowCon(Policy):
    """Shares by growth efficiency: the fall of the loss for each CPU second, measured once an interval.

    Jobs have the workers that they asked for, first come, first served. Each node divides its cores for
    itself.

    References: Zheng et al., "FlowCon: Elastic Flow Configuration for Containerized Deep Learning
        Applications", ICPP 2019, sections 3.3 and 4: Equations (1), (2), Algorithms 1, 2.
    Deviates: where the printed algorithms are open or wrong.
        Eq. 1: only a fall is progress; in print, with |E(t) - E(t-1)|, a loss that rises grows.
        Eq. 2: G has the unit of the loss. It is compared and divided as a part of the job's own best G, so
        alpha is a percentage, and the scale of a loss does not matter. In print shares of all resources
        follow one G, and which is open. Here CPU time is divided, and G is of that. Memory, block I/O and
        network are measured and not limited.
        Line 3: a job that has not reported since the last run is not measured, and keeps its list. A new
        one has no G: it stays in NL with share 1 and counts as one at its best. Its first value is what the
        next is compared with, whenever it comes. A job without a metric, or with NaN, is in no list and has
        the mean share of those that are.
        Lines 4-13: lists are one mark for each job, so that it is in one of them only.
        Line 17: the interval is its initial value again when some job is no longer completing; in print,
        only when one arrives or exits.
        Lines 21, 22, 26: the floor 1 / (beta x jobs) holds for every job, not only in CL, and if no job
        grows each has the floor; in print 0 / 0.
        Line 24: a share that was kept is raised to the floor of the present number of jobs.
        Algorithm 2: jobs are compared as sets, not by their number. On arrival and exit shares are divided
        again by the latest G; a measurement under way is not cut short.
        Shares are weights where the executor can set weights. The paper calls its limits soft (section 4.1:
        others use what a job leaves), but those of `docker update --cpus` are hard.
    """

    name = "flowcon"
    domain = Domain(shares_cores=True)

    alpha: Annotated[
        float,
        Meta(
            ge=0,
            le=1,
            description="Growth efficiency, as a part of a job's own best, below which it slows down.",
        ),
    ] = 0.05
    beta: Annotated[
        float, Meta(ge=1, le=1000, description="No share is below 1 / (beta x jobs of the node).")
    ] = 2.0
    interval_s: Annotated[
        float, Meta(ge=0.1, le=86400, description="Seconds between two measurements, before any back-off.")
    ] = 20.0

    def decide(self, snapshot: Snapshot) -> Allocation:
        slots = first_come(snapshot)
        listen = partial(self._listen, snapshot, slots.learning)
        return divided(snapshot, slots, "workers", Worker, listen, partial(_why, slots.learning))

    def _listen(self, snapshot: Snapshot, learning: Learning, worker: Worker, ids: dict[str, int]) -> Worker:
        """Algorithm 2, and Algorithm 1 where it is due."""
        now_s = snapshot.now_s
        is_changed = worker.members.keys() != ids.keys()  # line 4, as a difference of sets
        members = {job_id: worker.members.get(job_id, Container()) for job_id in ids}  # lines 6-7, 11-15
        interval_s = self.interval_s if is_changed else worker.interval_s  # lines 8, 16
        due_s = worker.due_s if worker.members else now_s
        due_s = min(due_s, now_s + interval_s) if is_changed else due_s
        if now_s < due_s:
            for job_id, row in ids.items():
                if members[job_id].value is None and _is_measured(learning, row):
                    _measure(members[job_id], now_s, learning, row)
            if is_changed:  # lines 9, 17
                self._divide(members)
            return Worker(members, interval_s, due_s)
        for job_id, row in ids.items():
            if snapshot.idle_s[row] > 0.0:
                continue
            if _measure(members[job_id], now_s, learning, row):
                self._classify(members[job_id])
        is_over = self._divide(members)
        interval_s = 2.0 * interval_s if is_over and not is_changed else self.interval_s  # line 17
        return Worker(members, interval_s, now_s + interval_s)

    def _classify(self, container: Container) -> None:
        """Algorithm 1, lines 4-13."""
        if container.growth_share >= self.alpha:
            container.group = NEW  # lines 10-13
        elif container.group == NEW:
            container.group = WATCHING  # lines 4-6
        else:
            container.group = COMPLETING  # lines 7-9

    def _divide(self, members: dict[str, Container]) -> bool:
        """Algorithm 1, lines 14-26; whether all jobs that are seen to learn are completing."""
        seen = [container for container in members.values() if not container.is_blind]
        if all(container.group == COMPLETING for container in seen):  # line 14, also where there is none
            for container in members.values():
                container.share = 1.0  # lines 15-16
            return True
        floor = 1.0 / (self.beta * len(members))
        total = math.fsum(container.growth_share for container in seen)
        for container in seen:
            if container.group == WATCHING:
                container.share = max(floor, container.share)  # lines 23-24
            elif container.growth is None:
                container.share = 1.0
            else:
                part = container.growth_share / total if total > 0.0 else 0.0  # lines 21, 26
                container.share = max(floor, round(part, SHARE_DIGITS))  # line 22
        unseen = max(floor, round(equal_part(container.share for container in seen), SHARE_DIGITS))
        for container in members.values():
            if container.is_blind:
                container.share = unseen
        return False


def _is_measured(learning: Learning, row: int) -> bool:
    return not (math.isnan(learning.value[row]) or math.isnan(learning.cpu_s[row]))


def _measure(container: Container, now_s: float, learning: Learning, row: int) -> bool:
    """Algorithm 1, line 3: whether there is a new G."""
    value, cpu_s = float(learning.value[row]), float(learning.cpu_s[row])
    if not _is_measured(learning, row):
        container.value, container.growth = None, None
        container.misses += 1
        return False
    before, elapsed_s, used_s = container.value, now_s - container.at_s, cpu_s - container.cpu_s
    told_s = float(learning.value_s[row])
    has_told = told_s != container.told_s and elapsed_s > 0.0 and not 0.0 <= used_s < LEAST_CPU_S
    if before is not None and not has_told:
        container.misses = 0
        return False
    container.at_s, container.value, container.cpu_s = now_s, value, cpu_s
    container.told_s = None if math.isnan(told_s) else told_s
    container.misses = 0
    if before is None or used_s < 0.0:
        return False
    progress_per_s = max(before - value, 0.0) / elapsed_s  # Eq. 1
    growth = progress_per_s / (used_s / elapsed_s)  # Eq. 2, average use of CPU time
    if not math.isfinite(growth):
        return False
    container.growth, container.best = growth, max(container.best, growth)
    container.num_flat += container.best == 0.0
    return True


def _why(learning: Learning, row: int, container: Container) -> str:
    if container.is_blind:
        return f"an equal part, for {why_blind(learning, row)}"
    if container.growth is None:
        return "it is new and not measured yet"
    if container.best == 0.0:
        return f"{why_flat(learning, row)} ({container.group})"
    if container.growth == 0.0:
        return f"its metric did not improve in the last interval ({container.group})"
    return f"its metric improves at {100 * container.growth_share:.3g} % of its best rate ({container.group})"

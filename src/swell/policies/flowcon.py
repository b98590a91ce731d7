"""FlowCon: jobs that share a node get CPU by how much they are still learning."""

from __future__ import annotations

import math
from typing import Annotated

import msgspec
from msgspec import Meta

from swell.model.options import Domain
from swell.model.plan import Allocation
from swell.model.snapshot import Learning, Snapshot
from swell.policies.core_shares import (
    FLAT_RUNS,
    LEAST_CPU_S,
    SharingJob,
    divided,
    equal_part,
    first_come,
    why_blind,
    why_flat,
)
from swell.policies.policy import Policy

#: The lists: NL, young and quickly growing; WL, near convergence; CL, converging and growing slowly.
NEW, WATCHING, COMPLETING = "new", "watching", "completing"
#: Shares are rounded to so many digits: a smaller change is not worth a command.
SHARE_DIGITS = 3

Alpha = Annotated[
    float,
    Meta(
        ge=0, le=1, description="Growth efficiency, as a part of a job's own best, below which it slows down."
    ),
]
Beta = Annotated[float, Meta(ge=1, le=1000, description="No share is below 1 / (beta x jobs of the node).")]
Interval = Annotated[
    float, Meta(ge=0.1, le=86400, description="Seconds between two measurements, before any back-off.")
]


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

    alpha: Alpha = 0.05
    beta: Beta = 2.0
    interval_s: Interval = 20.0

    def decide(self, snapshot: Snapshot) -> Allocation:
        slots = first_come(snapshot)
        before = msgspec.convert(snapshot.memory.get("workers", {}), dict[str, Worker])
        workers: dict[str, Worker] = {}
        containers: dict[int, Container] = {}
        for node, rows in slots.nodes.items():
            ids = {snapshot.job_ids[row]: row for row in rows}
            workers[node] = worker = self._listen(before.get(node, Worker()), snapshot, slots.learning, ids)
            containers |= {row: worker.members[job_id] for job_id, row in ids.items()}
        return divided(
            snapshot,
            slots,
            containers,
            lambda row: _why(slots.learning, row, containers.get(row)),
            min((worker.due_s for worker in workers.values()), default=math.inf),
            {"workers": msgspec.to_builtins(workers)},
        )

    def _listen(self, worker: Worker, snapshot: Snapshot, learning: Learning, ids: dict[str, int]) -> Worker:
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


def _why(learning: Learning, row: int, container: Container | None) -> str:
    if container is None:
        return "no job is known to share its cores yet"
    if container.is_blind:
        return f"an equal part, for {why_blind(learning, row)}"
    if container.growth is None:
        return "it is new and not measured yet"
    if container.best == 0.0:
        return f"{why_flat(learning, row)} ({container.group})"
    if container.growth == 0.0:
        return f"its metric did not improve in the last interval ({container.group})"
    return f"its metric improves at {100 * container.growth_share:.3g} % of its best rate ({container.group})"

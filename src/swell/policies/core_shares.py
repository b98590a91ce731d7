"""Slots first come, first served, and the cores of a node divided among the gangs on it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from swell.arrays import FloatArray, IntArray
from swell.model.options import NO_OPTION, SizeOptions
from swell.model.plan import Allocation
from swell.model.snapshot import Learning, Memory, Snapshot
from swell.policies.levels import Levels, levels_of
from swell.policies.unpromised import without_promises
from swell.solvers.fair_clock import fair_ends
from swell.solvers.marginal import serve_in_order

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
    sharers: Mapping[int, SharingJob],
    why_share: Callable[[int], str],
    wake_s: float,
    memory: Memory,
) -> Allocation:
    """The answer; jobs that run and are none of the `sharers`, by row, have share 1.

    `wake_s` is moved forward if a gang is launched: from then on it has neighbours.
    """
    share = np.where(slots.level > 0, 1.0, np.nan)
    for row, sharer in sharers.items():
        share[row] = sharer.share
    # Jobs that show no learning have a code of their own, so that it is told once.
    codes = {row: "blind" for row, sharer in sharers.items() if sharer.is_blind}
    codes |= {row: "flat" for row, sharer in sharers.items() if sharer.is_told_flat and row not in codes}

    def why(row: int) -> str:
        return f"CPU share {100 * share[row]:.3g} %: {why_share(row)}"

    ends_s = equal_ends(snapshot, slots)
    plain = without_promises(
        snapshot, slots.levels, slots.level, slots.order, why, slots.why_waits, ends_s, codes
    )
    is_news = slots.launched and slots.launched != snapshot.memory.get("launched")
    return replace(
        plain,
        share=share,
        wake_s=min(wake_s, snapshot.now_s + LAUNCHED_S) if is_news else wake_s,
        memory={**memory, "launched": slots.launched},
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

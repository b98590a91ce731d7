"""Who held how many devices when, for a picture."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

import numpy as np

from swell.sim.occurrence import NodeFails, NodeReturns, Occurrence
from swell.sim.outcome import JobOutcome, Usage
from swell.sim.simulate import Scenario

#: (from, to, devices) of one job, in time's order.
Held = list[tuple[float, float, int]]

#: More changes of the number of devices than this a picture does not need: there are fewer pixels.
MAX_CHANGES = 6_000
#: Means of a curve that is as wide as a page.
NUM_MEANS = 1_000


def held(job: JobOutcome, run_end_s: float) -> Held:
    """Pieces of time in which it has workers."""
    ends_s = [*(at_s for at_s, _ in job.sizes[1:]), run_end_s if job.end_s is None else job.end_s]
    return [
        (at_s, end_s, size)
        for (at_s, size), end_s in zip(job.sizes, ends_s, strict=True)
        if size and end_s > at_s
    ]


def capacity(scenario: Scenario, end_s: float) -> list[tuple[float, int]]:
    """(since, devices there): nodes that fail and nodes that are lent come and go."""
    sizes = {node.name: len(node.devices) for node in scenario.nodes}
    number = sum(sizes.values())
    known = [(0.0, number)]
    for at_s, occurrence in _by_time(scenario):
        if at_s > end_s:
            break
        number += _difference(occurrence, sizes)
        if known[-1][0] == at_s:
            known[-1] = (at_s, number)
        elif known[-1][1] != number:
            known.append((at_s, number))
    return _sampled(known, end_s)


def _by_time(scenario: Scenario) -> Iterator[tuple[float, Occurrence]]:
    lent = scenario.pool.changes() if scenario.pool is not None else []
    owned = sorted(scenario.others, key=lambda change: change[0])
    return heapq.merge(owned, lent, key=lambda change: change[0])


def _difference(occurrence: Occurrence, sizes: dict[str, int]) -> int:
    """What it changes in the number of devices; `sizes` are those of nodes that are there."""
    if isinstance(occurrence, NodeReturns):
        before = sizes.get(occurrence.node.name, 0)
        sizes[occurrence.node.name] = len(occurrence.node.devices)
        return len(occurrence.node.devices) - before
    return -sizes.pop(occurrence.name, 0) if isinstance(occurrence, NodeFails) else 0


def _sampled(known: list[tuple[float, int]], end_s: float) -> list[tuple[float, int]]:
    """The last of each time of a grid, if there are more than a picture needs."""
    if len(known) <= MAX_CHANGES:
        return known
    grid_s = end_s / (MAX_CHANGES)
    return list({int(at_s / grid_s): (at_s, number) for at_s, number in known}.values())


def mean_devices(usage: Usage, until_s: float, end_s: float, number: int = NUM_MEANS) -> list[float | None]:
    """Devices in use, a mean for each of so many equal parts of the time to `until_s`.

    None after the part that follows `end_s`, in which none is in use.
    """
    if not len(usage.at_s) or until_s <= 0.0:
        return [None] * number
    times_s = np.append(usage.at_s, max(until_s, usage.at_s[-1]))
    sums = np.concatenate([[0.0], np.cumsum(usage.used_devices * np.diff(times_s))])
    edges_s = np.linspace(0.0, until_s, number + 1)
    means = np.diff(np.interp(edges_s, times_s, sums)) / np.diff(edges_s)
    befores_s = [0.0, *edges_s[:-2]]
    return [
        float(mean) if before_s < end_s else None for mean, before_s in zip(means, befores_s, strict=True)
    ]

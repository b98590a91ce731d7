"""Idle times of a few nodes of a log of idle nodes, compressed so that they pass in minutes."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import msgspec

from swell.sim.pool import IdleInterval, Pool


class LentInterval(msgspec.Struct, frozen=True, kw_only=True):
    """A node is lent from `start_s` until it is reclaimed. Seconds since the beginning of the run."""

    node: str
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Which part of a log is followed, and how fast."""

    num_nodes: int
    from_s: float  #: of the log
    length_s: float  #: of the log
    times_faster: float
    least_s: float  #: of an interval, compressed: a shorter one is over before a node can join
    least_gap_s: float  #: between two of a node, compressed: it joins again once it has been given up
    apart_s: float  #: changes that are less apart, compressed, are of one moment
    least_changes: int  #: of a node, after the beginning and before the end

    @property
    def played_s(self) -> float:
        return self.length_s / self.times_faster


def compressed(pool: Pool, window: Window) -> tuple[LentInterval, ...]:
    """Return the intervals, compressed in time, of the log's nodes that fit the window and are lent longest.

    A node fits that comes or goes at least `least_changes` times, and never too soon for a process to follow.
    Nodes often come and go together, in blocks; of a block only the first node is taken, by its name.
    """
    part = pool.within(window.from_s, window.from_s + window.length_s)
    nodes: defaultdict[str, list[LentInterval]] = defaultdict(list)
    for one in part.intervals:
        nodes[one.node].append(_faster(one, window.times_faster))
    fitting = [
        tuple(sorted(lent, key=lambda one: one.start_s)) for lent in nodes.values() if _fits(lent, window)
    ]
    fitting.sort(key=lambda lent: (-sum(one.end_s - one.start_s for one in lent), lent[0].node))
    return tuple(one for lent in _unlike(fitting, window) for one in lent)


def drawn(window: Window, seed: int) -> tuple[LentInterval, ...]:
    """Draw the intervals of made-up nodes.

    Idle and busy times are exponential, in the mean a third of the window.
    """
    chance, mean_s = random.Random(seed), window.played_s / 3.0
    intervals: list[LentInterval] = []
    for number in range(window.num_nodes):
        at_s = chance.choice([0.0, chance.uniform(window.least_gap_s, mean_s)])
        while window.played_s - at_s > window.least_s:
            length_s = max(window.least_s, chance.expovariate(1.0 / mean_s))
            end_s = min(at_s + length_s, window.played_s)
            intervals.append(LentInterval(node=f"drawn{number}", start_s=at_s, end_s=end_s))
            at_s = end_s + max(window.least_gap_s, chance.expovariate(1.0 / mean_s))
    return tuple(intervals)


def _faster(one: IdleInterval, times: float) -> LentInterval:
    return LentInterval(node=one.node, start_s=one.start_s / times, end_s=one.end_s / times)


def _fits(lent: Sequence[LentInterval], window: Window) -> bool:
    in_order = sorted(lent, key=lambda one: one.start_s)
    gaps_s = (after.start_s - before.end_s for before, after in pairwise(in_order))
    is_slow = all(one.end_s - one.start_s >= window.least_s for one in in_order)
    is_lively = len(list(_changes_s(in_order, window))) >= window.least_changes
    return is_slow and is_lively and all(gap_s >= window.least_gap_s for gap_s in gaps_s)


def _changes_s(lent: Sequence[LentInterval], window: Window) -> Iterator[float]:
    """When the node comes and goes, after the beginning and before the end."""
    for one in lent:
        yield from (at_s for at_s in (one.start_s, one.end_s) if 0.0 < at_s < window.played_s)


def _unlike(nodes: Sequence[tuple[LentInterval, ...]], window: Window) -> list[tuple[LentInterval, ...]]:
    """The first of each block: no two of them come or go together more than once."""
    taken: list[tuple[LentInterval, ...]] = []
    for lent in nodes:
        if len(taken) < window.num_nodes and all(_num_common(lent, other, window) <= 1 for other in taken):
            taken.append(lent)
    return taken


def _num_common(one: Sequence[LentInterval], other: Sequence[LentInterval], window: Window) -> int:
    """Changes of both nodes at one moment, or nearly."""
    own_s, others_s = list(_changes_s(one, window)), list(_changes_s(other, window))
    return sum(any(abs(at_s - other_s) < window.apart_s for other_s in others_s) for at_s in own_s)

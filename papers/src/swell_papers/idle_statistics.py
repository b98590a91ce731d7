"""Pools drawn from the statistics that a paper prints of machines whose logs are not public."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from swell.model.errors import InvalidInput
from swell.sim.pool import HOUR_S, IdleInterval, Pool

#: Of the paper's logs: how often the queue was asked which nodes are idle.
GRAIN_S = 10.0
#: Intervals of one pool at most: a year of the smaller machine is more.
MOST_INTERVALS = 2_000_000


@dataclass(frozen=True, slots=True)
class IdleStatistics:
    """A row of Table 1 of BFTrainer, and the least nodes that a job of the machine's queue may ask for."""

    joins_per_h: float  #: times at which idle nodes increase (INC/h)
    leaves_per_h: float  #: times at which they decrease (DEC/h)
    share: float  #: of the machine that is idle (Ratio)
    equivalent_nodes: float  #: eq-Nodes
    least_request: int  #: section 2.1

    @property
    def num_nodes(self) -> int:
        """All nodes of the machine."""
        return round(self.equivalent_nodes / self.share)

    @property
    def leave_share(self) -> float:
        """The share of the idle nodes that the queue takes at a time, on average."""
        flow_per_h = self.joins_per_h * self.least_request
        return flow_per_h / (self.leaves_per_h * self.equivalent_nodes)


#: By name: pools that are like those of the machines as far as Table 1 tells.
LIKE = {
    "theta-like": IdleStatistics(6.3, 6.2, 0.125, 547.0, 128),
    "mira-like": IdleStatistics(2.8, 2.4, 0.103, 5_071.0, 512),
}


def drawn_pool(name: str, duration_s: float, seed: int) -> Pool:
    """Draw a pool whose nodes increase and decrease as often, and are as many on average, as Table 1 prints.

    Nodes join at moments of a Poisson process, as many as the least request on average (evenly from 1 to
    twice that). At moments of another one the queue takes an exponential share of those that are idle, at
    least one node, whichever. With Table 1 that is all: how long single nodes stay is not printed for these
    machines, and follows.

    References: Liu et al., "BFTrainer", 2021, section 2.1, Table 1.

    Raises:
        InvalidInput: it would have too many intervals.
    """
    like, generator = LIKE[name], np.random.default_rng(seed)
    expected = like.equivalent_nodes + like.joins_per_h * like.least_request * duration_s / HOUR_S
    if expected > MOST_INTERVALS:
        raise InvalidInput(
            f"a pool {name} of {duration_s / 86_400.0:g} days has about {expected:,.0f} intervals, and at "
            f"most {MOST_INTERVALS:,} are drawn; ask for fewer days"
        )
    joins_s = _moments(generator, like.joins_per_h, duration_s)
    leaves_s = _moments(generator, like.leaves_per_h, duration_s)
    busy = list(range(like.num_nodes))
    since: dict[int, float] = {}
    intervals: list[IdleInterval] = []
    _join(generator, busy, since, round(like.equivalent_nodes), 0.0)
    events = sorted([(at_s, False) for at_s in leaves_s] + [(at_s, True) for at_s in joins_s])
    for at_s, is_join in events:
        if is_join:
            num = int(generator.integers(1, 2 * like.least_request, endpoint=True))
            _join(generator, busy, since, num, at_s)
            continue
        share = min(1.0, generator.exponential(like.leave_share))
        idle = [node for node in sorted(since) if since[node] < at_s]
        num = min(len(idle), max(1, round(share * len(idle))))
        for node in generator.choice(idle, num, replace=False).tolist() if num else ():
            intervals.append(IdleInterval(_name(node), since.pop(node), at_s))
            busy.append(node)
    intervals += [IdleInterval(_name(node), start_s, math.inf) for node, start_s in sorted(since.items())]
    return Pool(tuple(intervals), f"{name} ({duration_s / 86_400.0:g} days drawn with seed {seed})")


def _moments(generator: np.random.Generator, per_h: float, duration_s: float) -> list[float]:
    """Draw the moments of a Poisson process at the grain of the paper's logs, each once."""
    num = generator.poisson(per_h * duration_s / HOUR_S)
    grains = np.ceil(generator.uniform(0.0, duration_s, num) / GRAIN_S)
    moments_s: list[float] = (np.unique(grains) * GRAIN_S).tolist()
    return moments_s


def _join(
    generator: np.random.Generator, busy: list[int], since: dict[int, float], num: int, at_s: float
) -> None:
    """Let so many busy nodes become idle, as far as there are."""
    for draw in generator.random(min(num, len(busy))).tolist():
        at = int(draw * len(busy))
        busy[at], busy[-1] = busy[-1], busy[at]
        since[busy.pop()] = at_s


def _name(node: int) -> str:
    return f"n{node:05d}"

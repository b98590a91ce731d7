"""BFTrainer, section 2.1: idle nodes of Summit's log, and of pools drawn from printed statistics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np

from swell.arrays import FloatArray
from swell.sim.pool import HOUR_S, Pool
from swell_papers.bftrainer_experiment import figure
from swell_papers.bftrainer_inputs import read_log
from swell_papers.bftrainer_runs import UNTIL_S
from swell_papers.experiment import Context
from swell_papers.findings import Part, Values, chart, table
from swell_papers.idle_statistics import LIKE, drawn_pool

DAY_S = 24.0 * HOUR_S
#: Days that are drawn of each pool.
NUM_DRAWN_DAYS = 7
#: Where Figure 1 has its ticks, in minutes.
MINUTES = (1, 2, 5, 10, 20, 30, 40, 50, 60, 90, 120)
SUMMIT_NODES = 4_608


@dataclass(frozen=True)
class IdleTimes:
    """A pool as columns, up to the moment at which its log ends."""

    starts_s: FloatArray
    ends_s: FloatArray
    until_s: float

    @property
    def first_s(self) -> float:
        return float(self.starts_s.min())

    @property
    def lengths_s(self) -> FloatArray:
        return self.ends_s - self.starts_s

    def joins_per_h(self, from_s: float, until_s: float) -> float:
        """Times at which nodes become idle."""
        return _num_within(self.starts_s, from_s, until_s) * HOUR_S / (until_s - from_s)

    def leaves_per_h(self, from_s: float, until_s: float) -> float:
        """Times at which nodes are taken back, the end of the log apart."""
        return _num_within(self.ends_s, from_s, min(until_s, self.until_s)) * HOUR_S / (until_s - from_s)

    def mean_nodes(self, from_s: float, until_s: float) -> float:
        """Idle nodes on average (Eq. 18)."""
        lengths_s = np.minimum(self.ends_s, until_s) - np.maximum(self.starts_s, from_s)
        return float(np.maximum(lengths_s, 0.0).sum()) / (until_s - from_s)

    def shorter(self, seconds: float) -> tuple[float, float]:
        """% of fragments that are no longer, and their % of node-time."""
        is_short = self.lengths_s <= seconds
        by_time = self.lengths_s[is_short].sum() / self.lengths_s.sum()
        return 100.0 * float(is_short.mean()), 100.0 * float(by_time)


def _num_within(moments_s: FloatArray, from_s: float, until_s: float) -> int:
    distinct = np.unique(moments_s)
    return int(((distinct >= from_s) & (distinct < until_s)).sum())


def idle_times(pool: Pool, until_s: float) -> IdleTimes:
    """Nodes that are idle for longer are so until the log ends."""
    starts_s, ends_s = np.array([(one.start_s, min(one.end_s, until_s)) for one in pool.intervals]).T
    is_there = starts_s < until_s
    return IdleTimes(starts_s[is_there], ends_s[is_there], until_s)


def _pools(context: Context) -> Mapping[str, IdleTimes]:
    return {"Summit's log": idle_times(read_log(context.data), UNTIL_S), **_drawn(context.seed)}


@cache
def _drawn(seed: int) -> Mapping[str, IdleTimes]:
    until_s = NUM_DRAWN_DAYS * DAY_S
    return {name: idle_times(drawn_pool(name, until_s, seed), until_s) for name in LIKE}


@figure("fig1", "Figure 1 and Table 1: lengths of idle times", of="drawn pools: seed {seed}, seven days")
def fig1(context: Context) -> Iterator[Part]:
    pools = _pools(context)
    yield table(
        "fig1",
        "fragments that are no longer, in % of their number and of node-time",
        ("minutes", *((f"{name}, {of}", 1) for name in pools for of in ("count", "node-time"))),
        (
            (str(minutes), *(share for one in pools.values() for share in one.shorter(60.0 * minutes)))
            for minutes in MINUTES
        ),
    )
    curves: dict[str, Values] = {
        f"{name}, by {of}": [one.shorter(60.0 * minutes)[at] for minutes in MINUTES]
        for name, one in pools.items()
        for at, of in enumerate(("count", "node-time"))
    }
    x = ("no longer than, minutes", (str(minutes) for minutes in MINUTES))
    yield chart("fig1", "Figure 1: how long nodes stay idle", "lines", x, "cumulative share, %", curves)
    yield table(
        "table1-machines",
        "Table 1: three machines",
        (*("pool", "statistic", ("paper", 1), ("here", 1)),),
        _rows_of_table_1(pools),
    )
    short, short_time = pools["Summit's log"].shorter(600.0)
    yield (
        "Paper: 58 % of Summit's fragments are idle less than ten minutes, and make 10 % of node-time. In "
        f"this log {short:.0f} % are no longer than that, and make {short_time:.0f} %."
    )
    yield (
        "The logs of Theta and Mira are not public. `theta-like` and `mira-like` are drawn from what Table 1 "
        "prints of them, and from the least requests of 128 and 512 nodes. How long single nodes stay is not "
        "printed for these two, and follows from the rest."
    )


def _rows_of_table_1(pools: Mapping[str, IdleTimes]) -> Iterator[tuple[str | float, ...]]:
    printed = {"Summit's log": (41.7, 28.6, 11.1, 524.0)} | {
        name: (like.joins_per_h, like.leaves_per_h, 100.0 * like.share, like.equivalent_nodes)
        for name, like in LIKE.items()
    }
    nodes = {"Summit's log": SUMMIT_NODES} | {name: like.num_nodes for name, like in LIKE.items()}
    for name, one in pools.items():
        span = one.first_s, one.until_s
        mean = one.mean_nodes(*span)
        found = (one.joins_per_h(*span), one.leaves_per_h(*span), 100.0 * mean / nodes[name], mean)
        for label, paper, here in zip(
            ("INC/h", "DEC/h", "Ratio, %", "eq-Nodes"), printed[name], found, strict=True
        ):
            yield name, label, paper, here


@figure("fig6", "Figure 6: idle nodes over a week", of="drawn pools: seed {seed}, seven days")
def fig6(context: Context) -> Iterator[Part]:
    """A day of the log begins when the log does; of the last one only what there is."""
    pools = _pools(context)
    rows: list[tuple[str | float, ...]] = []
    means: dict[str, Values] = {}
    for name, one in pools.items():
        nodes = LIKE[name].num_nodes if name in LIKE else SUMMIT_NODES
        days = []
        for day in range(NUM_DRAWN_DAYS):
            from_s = one.first_s + day * DAY_S
            until_s = min(from_s + DAY_S, one.until_s)
            if until_s <= from_s:
                break
            mean = one.mean_nodes(from_s, until_s)
            events = one.joins_per_h(from_s, until_s), one.leaves_per_h(from_s, until_s)
            rows.append((name, str(day + 1), mean, 100.0 * mean / nodes, *events))
            days.append(mean)
        means[name] = [*days, *[None] * (NUM_DRAWN_DAYS - len(days))]
    heading = (
        *("pool", "day", ("idle nodes, mean", 0), ("% of the machine", 1)),
        *(("joins an hour", 1), ("leaves an hour", 1)),
    )
    yield table("fig6", "idle nodes, day by day", heading, rows)
    days_shown = (str(day + 1) for day in range(NUM_DRAWN_DAYS))
    yield chart("fig6", "Figure 6: idle nodes by day", "bars", ("day", days_shown), "idle nodes, mean", means)
    yield "The paper's week is another one than that of the public log; its bars are not printed as numbers."


FIGURES = (fig1, fig6)

"""BFTrainer, section 2.1: the idle nodes of Summit's log."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path

import numpy as np

from swell.sim.pool import HOUR_S, Pool
from swell_papers.bftrainer_inputs import POOL, UNTIL_S, read_log
from swell_papers.experiment import Claim, Measure, Picture, Study

DAY_S = 24.0 * HOUR_S
SUMMIT_NODES = 4_608
WHOLE, NUM_DAYS = "all", 7
#: Of Figure 1.
MINUTES = (1, 2, 5, 10, 20, 30, 60, 120, 360)
TRUTH = "eight days of Summit's idle nodes, all nodes of the log"


def part(data: Path, from_s: float, length_s: float) -> Pool:
    """The log for so long, as far as there is, from so long after its beginning."""
    log = read_log(data)
    begin_s = min(one.start_s for one in log.intervals) + from_s
    return log.within(begin_s, min(begin_s + length_s, UNTIL_S))


def fragments(data: Path, minutes: float) -> tuple[float, float, float]:
    """% of fragments that are no longer, their % of node-time, and how many minutes more the others last."""
    idle_min = np.array([one.end_s - one.start_s for one in part(data, 0.0, UNTIL_S).intervals]) / 60.0
    is_short = idle_min <= minutes
    share = float(idle_min[is_short].sum() / idle_min.sum())
    return 100.0 * float(is_short.mean()), 100.0 * share, float((idle_min[~is_short] - minutes).mean())


def per_h(pool: Pool, moments_s: Iterable[float]) -> float:
    """Distinct moments an hour, without the beginning and the end."""
    last_s = pool.last_s
    return sum(0.0 < at_s < last_s for at_s in set(moments_s)) / (last_s / HOUR_S)


COUNT, TIME = "no longer, % of fragments", "no longer, % of node-time"
FIGURE_1 = Study[tuple[float, float, float]](
    name="fig1",
    title="Figure 1: how long nodes stay idle",
    truth=TRUTH,
    cases=lambda context: {(str(time),): partial(fragments, context.data, time) for time in MINUTES},
    keys=("minutes",),
    measures=[
        Measure(COUNT, lambda told: told[0], 1),
        Measure(TIME, lambda told: told[1], 1),
        Measure("the others stay so many minutes more", lambda told: told[2], 0),
    ],
    pictures=[Picture(measures=(COUNT, TIME), x="minutes", kind="lines")],
    claims=[
        Claim(text="ten minutes or less, % of fragments", figure=58.0, of=lambda found: found["10",][0]),
        Claim(text="ten minutes or less, % of node-time", figure=10.0, of=lambda found: found["10",][1]),
    ],
    needs=(POOL,),
)
#: What Table 1 prints of Summit (INC/h, DEC/h, eq-Nodes, Ratio), and each of a pool.
TABLE_1: dict[float, Measure[Pool]] = {
    41.7: Measure("joins an hour", lambda pool: per_h(pool, (one.start_s for one in pool.intervals)), 1),
    28.6: Measure("leaves an hour", lambda pool: per_h(pool, (one.end_s for one in pool.intervals)), 1),
    524.0: Measure("idle nodes, mean", lambda pool: pool.equivalent_nodes(0.0, pool.last_s), 0),
    11.1: Measure(
        "% of the machine", lambda pool: 100.0 * pool.equivalent_nodes(0.0, pool.last_s) / SUMMIT_NODES, 1
    ),
}
FIGURE_6 = Study[Pool](
    name="fig6",
    title="Table 1 and Figure 6: idle nodes, over all the log and day by day",
    truth=TRUTH,
    cases=lambda context: {
        (WHOLE,): partial(part, context.data, 0.0, UNTIL_S),
        **{(str(day + 1),): partial(part, context.data, day * DAY_S, DAY_S) for day in range(NUM_DAYS)},
    },
    keys=("day",),
    measures=tuple(TABLE_1.values()),
    pictures=[Picture(measures=("idle nodes, mean",), x="day")],
    claims=[
        Claim(text=one.name, figure=printed, of=lambda found, of=one.of: found.mean(of, WHOLE))  # type: ignore[misc]
        for printed, one in TABLE_1.items()
    ],
    needs=(POOL,),
)

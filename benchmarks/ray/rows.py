"""What the costs of both sides come to: a row of medians for each change, and what was wanted of them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.ray.changes import GROWTH, LOSS, Cost
from benchmarks.ray.hand_over import HandOver

RIVAL, OURS = "ray train", "swell"
#: Of a growth: how many times shorter the pause shall be at least, and how long at most.
GROWTH_TIMES_LESS, GROWTH_BAR_S = 20.0, 0.5
#: From when Ray has both nodes until the first step with them.
START_BAR_S = 10.0
#: Of a loss: the same of the time to the next finished step, and of that after Ray knew.
LOSS_TIMES_LESS, BEYOND_BAR_S = 10.0, 3.0
#: From the first step after a shrink until a task of another user runs on the device.
HAND_OVER_BAR_S = 1.0


@dataclass(frozen=True, slots=True)
class Row:
    """One change. Medians in seconds, by side."""

    change: str
    pause_s: Mapping[str, float]
    longest_s: Mapping[str, float]
    next_step_s: Mapping[str, float]  #: from the cause
    known_s: Mapping[str, float]  #: empty if nothing was killed
    beyond_s: Mapping[str, float]  #: likewise
    steady_step_s: Mapping[str, float]
    num_repeated: Mapping[str, float]  #: steps that were done again
    costs: Mapping[str, Sequence[Cost]]


def row_of(change: str, costs: Mapping[str, Sequence[Cost]]) -> Row:
    """`costs`: by side, one for each round."""

    def medians(of: Mapping[str, Sequence[float | None]]) -> dict[str, float]:
        known = {side: [value for value in values if value is not None] for side, values in of.items()}
        return {side: statistics.median(values) for side, values in known.items() if values}

    return Row(
        change,
        medians({side: [cost.pause.pause_s for cost in found] for side, found in costs.items()}),
        medians({side: [cost.longest_s for cost in found] for side, found in costs.items()}),
        medians({side: [cost.pause.to_next_step_s for cost in found] for side, found in costs.items()}),
        medians({side: [cost.known_s for cost in found] for side, found in costs.items()}),
        medians({side: [cost.beyond_s for cost in found] for side, found in costs.items()}),
        medians({side: [cost.pause.steady_step_s for cost in found] for side, found in costs.items()}),
        medians({side: [cost.pause.num_repeated for cost in found] for side, found in costs.items()}),
        costs,
    )


def times_less(by_side: Mapping[str, float]) -> float | None:
    """How many times as long the rival's is as ours; infinite if ours is none; None if one was not run."""
    if RIVAL not in by_side or OURS not in by_side:
        return None
    return by_side[RIVAL] / by_side[OURS] if by_side[OURS] > 0 else math.inf


@dataclass(frozen=True, slots=True)
class Bar:
    """Something that was wanted."""

    told: str
    measured: float
    is_reached: bool


def bars_of(rows: Sequence[Row], hand_overs: Sequence[HandOver] = ()) -> list[Bar]:
    """Of what was run."""
    bars = []

    def at_least(told: str, measured: float | None, wanted: float) -> None:
        if measured is not None:
            bars.append(Bar(f"{told}, at least {wanted:g}", measured, measured >= wanted))

    def at_most(told: str, measured: float | None, wanted: float) -> None:
        if measured is not None:
            bars.append(Bar(f"{told}, s, at most {wanted:g}", measured, measured <= wanted))

    for row in rows:
        if row.change == GROWTH:
            at_least("growth: pause, times less", times_less(row.pause_s), GROWTH_TIMES_LESS)
            at_most("growth: pause", row.pause_s.get(OURS), GROWTH_BAR_S)
            at_most("growth: first step with both nodes", row.next_step_s.get(OURS), START_BAR_S)
        elif row.change == LOSS:
            at_least("lost node: next step, times less", times_less(row.next_step_s), LOSS_TIMES_LESS)
            at_most("lost node: next step after Ray knew", row.beyond_s.get(OURS), BEYOND_BAR_S)
    if hand_overs:
        after_s = statistics.median(each.after_shrink_s for each in hand_overs)
        at_most("shrink: another task has the device", after_s, HAND_OVER_BAR_S)
    return bars

"""BFTrainer, sections 5.2 and 5.3: trainers of seven models, two objectives, and how many at one time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from swell.sim.pool import HOUR_S
from swell_papers.bftrainer_experiment import figure, lines
from swell_papers.bftrainer_inputs import DIVERSE, MODELS
from swell_papers.bftrainer_replay import Replayed
from swell_papers.bftrainer_runs import (
    EFFICIENCY,
    FORWARD_S,
    OBJECTIVES,
    SAMPLES,
    USUAL_FORWARD_S,
    USUAL_TRAINERS,
    ReplayOutcome,
    Setting,
    outcomes,
    outcomes_of,
)
from swell_papers.experiment import Context
from swell_papers.findings import Cell, Part, table

#: Most trainers at one time, of Figure 14 and Tables 3 and 4.
MOST_TRAINERS = (5, 10, 15, 20, 25, 30, 35)
#: Of Tables 3 and 4, in print: model -> hours at each of these.
TABLE_3 = {
    "AlexNet": (0.5, 0.6, 0.5, 0.6, 0.5, 0.5, 0.6),
    "ResNet18": (0.4, 0.4, 0.4, 0.4, 0.5, 0.5, 0.5),
    "MnasNet": (0.7, 0.7, 0.8, 0.8, 0.9, 0.9, 1.1),
    "MobileNets": (0.8, 0.9, 0.8, 0.9, 1.0, 1.2, 1.4),
    "ShuffleNet": (0.9, 1.0, 0.9, 1.2, 1.4, 1.6, 1.8),
    "VGG-16": (2.3, 3.4, 4.1, 5.4, 6.1, 6.3, 7.4),
    "DenseNet": (4.1, 9.5, 16.1, 22.4, 29.2, 36.3, 42.3),
}
TABLE_4 = {
    "VGG-16": (1.98, 2.8, 3.3, 3.8, 4.5, 5.0, 5.2),
    "DenseNet": (2.58, 3.4, 4.6, 5.2, 6.4, 6.5, 7.8),
    "ResNet18": (0.77, 1.1, 1.5, 1.9, 2.1, 2.4, 2.6),
    "MobileNets": (0.89, 1.8, 2.7, 3.8, 4.7, 5.9, 7.4),
    "ShuffleNet": (1.15, 2.1, 2.9, 4.2, 5.4, 7.2, 8.5),
    "MnasNet": (1.15, 2.3, 3.8, 5.5, 7.0, 9.4, 10.7),
    "AlexNet": (0.94, 2.4, 3.9, 5.3, 6.8, 7.6, 8.8),
}


def diverse(
    objective: float, max_trainers: int = USUAL_TRAINERS, forward_s: float = USUAL_FORWARD_S
) -> Setting:
    return Setting(trainers=DIVERSE, objective=objective, max_trainers=max_trainers, forward_s=forward_s)


def mean_hours(found: Replayed) -> Mapping[str, float | None]:
    """Mean run time in hours of the trainers that ended, by the model's name in print.

    A trainer's time counts from when it shared the nodes. None where no trainer of a model ended.
    """
    hours: dict[str, list[float]] = {label: [] for label in MODELS.values()}
    for ended in found.ended:
        hours[MODELS[ended.model]].append(ended.runtime_s / HOUR_S)
    return {label: float(np.mean(some)) if some else None for label, some in hours.items()}


def _of_models(hours: Mapping[str, float | None]) -> list[float | None]:
    return [hours[label] for label in MODELS.values()]


@figure("fig12", "Figure 12: run times under two objectives")
def fig12(context: Context) -> Iterator[Part]:
    hours = {
        name: mean_hours(outcomes(context, diverse(objective)).found)
        for objective, name in OBJECTIVES.items()
    }
    by_model = {name: _of_models(some) for name, some in hours.items()}
    yield table(
        "fig12",
        f"mean run time in hours of each model's trainers, {USUAL_TRAINERS} at one time",
        ("model", *((name, 2) for name in hours)),
        zip(MODELS.values(), *by_model.values(), strict=True),
    )
    yield lines(
        "fig12", "Figure 12: run times by objective", ("model", MODELS.values()), "hours", dict(by_model)
    )
    spread = {name: _spread(some) for name, some in hours.items()}
    yield (
        "Paper: with samples per second, fast models come first and DenseNet's trainers take more than 40 "
        "times as long as AlexNet's; with scaling efficiency run times are similar. Here the longest mean is "
        f"{spread[OBJECTIVES[SAMPLES]]:.0f} times the shortest with samples per second, and "
        f"{spread[OBJECTIVES[EFFICIENCY]]:.0f} times with scaling efficiency."
    )


def _spread(hours: Mapping[str, float | None]) -> float:
    told = [value for value in hours.values() if value is not None]
    return max(told) / min(told) if told else 1.0


@figure("fig13", "Figure 13: utilization efficiency under two objectives")
def fig13(context: Context) -> Iterator[Part]:
    shares = {
        name: [
            one.utilization_percent
            for one in outcomes_of(
                context, name, (diverse(objective, forward_s=float(forward_s)) for forward_s in FORWARD_S)
            )
        ]
        for objective, name in OBJECTIVES.items()
    }
    yield table(
        "fig13",
        "U in %, printed",
        ("T_fwd, s", *((name, 1) for name in shares)),
        zip(map(str, FORWARD_S), *shares.values(), strict=True),
    )
    title = "Figure 13: utilization efficiency by objective"
    yield lines("fig13", title, ("T_fwd, s", FORWARD_S), "U, %", dict(shares))
    samples, efficiency = (float(np.mean(shares[OBJECTIVES[one]])) for one in (SAMPLES, EFFICIENCY))
    yield (
        "Paper: from 79 % to 86 %, always higher with scaling efficiency. Here the means over T_fwd are "
        f"{samples:.1f} % with samples per second and {efficiency:.1f} % with scaling efficiency, so the "
        "order does not come out. It depends on the objective with which the trainers on nodes that stay are "
        "counted, which the paper does not name; here it is each one's own. In node-hours for the same "
        "trainers (Figure 14) scaling efficiency is ahead, as in the paper."
    )


# Figure 14, Tables 3 and 4


def _by_most(context: Context, objective: float) -> list[ReplayOutcome]:
    name = OBJECTIVES[objective]
    return outcomes_of(context, f"Pjmax, {name}", (diverse(objective, most) for most in MOST_TRAINERS))


def node_h_per_thousand(found: Replayed) -> float:
    """Node-hours of the pool for as many images as 1,000 trainers process, in thousands (Eq. 17)."""
    return found.node_s / HOUR_S * 1_000.0 * 130e6 / max(found.images, 1.0) / 1e3


def unoccupied_share(found: Replayed) -> float:
    """Share of the pool's node-time in which nodes had no trainer."""
    return 1.0 - float(found.num_used @ found.length_s) / max(found.node_s, 1.0)


def _minutes(found: Replayed) -> float | None:
    times_s = [ended.runtime_s for ended in found.ended]
    return float(np.mean(times_s)) / 60.0 if times_s else None


@figure("fig14", "Figure 14: trainers at one time")
def fig14(context: Context) -> Iterator[Part]:
    found = {name: _by_most(context, objective) for objective, name in OBJECTIVES.items()}
    integral = {name: [node_h_per_thousand(one.found) for one in some] for name, some in found.items()}
    minutes = {name: [_minutes(one.found) for one in some] for name, some in found.items()}
    shares = {name: [one.utilization_percent for one in some] for name, some in found.items()}
    yield table(
        "fig14",
        "what 1,000 trainers take, by how many run at one time (Pjmax), printed",
        ("Pjmax", "objective", ("1,000 node-hours", 1), ("mean run time, min", 0), ("U, %", 1)),
        (
            (str(most), name, integral[name][at], minutes[name][at], shares[name][at])
            for name in found
            for at, most in enumerate(MOST_TRAINERS)
        ),
    )
    places = ("Pjmax", MOST_TRAINERS)
    yield lines("fig14a", "Figure 14a: resource integral", places, "1,000 node-hours", dict(integral))
    yield lines("fig14b", "Figure 14b: mean run time", places, "minutes", dict(minutes))
    yield lines("fig14c", "Figure 14c: utilization efficiency", places, "U, %", dict(shares))
    yield (
        "Paper: from 5 to 35 trainers the resource integral falls by 28 % (from about 26 to 19 thousand "
        "node-hours), run times rise by 442 %, and U rises (from about 70 % to 90 %). Here the integral "
        f"falls by {_fall(integral[OBJECTIVES[SAMPLES]]):.0f} % and "
        f"{_fall(integral[OBJECTIVES[EFFICIENCY]]):.0f} %, and run times rise by "
        f"{-_fall(minutes[OBJECTIVES[SAMPLES]]):.0f} % and {-_fall(minutes[OBJECTIVES[EFFICIENCY]]):.0f} % "
        "(samples per second, scaling efficiency)."
    )
    empty = [100.0 * unoccupied_share(one.found) for one in found[OBJECTIVES[SAMPLES]]]
    yield (
        "Paper: 12.4 % and 2.1 % of the machine's time are unoccupied with 5 and 10 trainers, and none with "
        f"more. Here {empty[0]:.1f} % and {empty[1]:.1f} %, and at most {max(empty[2:]):.1f} % with more."
    )
    yield (
        "The eight days end before 1,000 trainers do, so the integral is scaled to their images, and run "
        "times are of trainers that ended: with many slow ones at one time those that did not are missing."
    )


def _fall(values: Sequence[float | None]) -> float:
    """Fall from the first value to the last, in %; 0 if one is not known."""
    first, last = values[0], values[-1]
    return 100.0 * (1.0 - last / first) if first and last is not None else 0.0


def _rises(
    printed: Mapping[str, Sequence[float]], hours: Sequence[Mapping[str, float | None]]
) -> Iterator[str]:
    """How much longer trainers of each model take the more share the nodes."""
    told = [
        f"{label} {theirs[-1] / theirs[0]:.1f} and {last / first:.1f}"
        for label, theirs in printed.items()
        if (first := hours[0][label]) and (last := hours[-1][label])
    ]
    if told:
        yield (
            f"Times as long with {MOST_TRAINERS[-1]} trainers at one time as with {MOST_TRAINERS[0]}, paper "
            f"and here: {', '.join(told)}."
        )


def _runtimes(
    name: str, objective: float, printed: Mapping[str, Sequence[float]], context: Context
) -> Iterator[Part]:
    hours = [mean_hours(one.found) for one in _by_most(context, objective)]
    rows: list[tuple[Cell, ...]] = []
    for label, theirs in printed.items():
        rows += (label, "paper", *theirs), (label, "here", *(some[label] for some in hours))
    yield table(
        name,
        f"mean run time in hours, by Pjmax; objective: {OBJECTIVES[objective]}",
        ("model", "from", *((str(most), 1) for most in MOST_TRAINERS)),
        rows,
    )
    yield from _rises(printed, hours)
    yield (
        "Another draw of 1,024 nodes and another week than the paper's, so compare orders and trends. Means "
        "are of trainers that ended within the log."
    )


FIGURES = (
    fig12,
    fig13,
    fig14,
    figure("table3", "Table 3: run times with samples per second as the objective")(
        partial(_runtimes, "table3", SAMPLES, TABLE_3)
    ),
    figure("table4", "Table 4: run times with scaling efficiency as the objective")(
        partial(_runtimes, "table4", EFFICIENCY, TABLE_4)
    ),
)

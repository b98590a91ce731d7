"""Intervals between checkpoints on borrowed nodes: fixed ones, and those that the platform chooses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from swell.sim.pool import HOUR_S, IdleInterval, Pool
from swell_papers.bftrainer_experiment import figure
from swell_papers.bftrainer_inputs import DIVERSE, read_log, read_some_names, read_trainers
from swell_papers.bftrainer_runs import FROM_S, OPTIMISER, USUAL_FORWARD_S
from swell_papers.bftrainer_simulated import SimulatedImages, simulated
from swell_papers.experiment import Context
from swell_papers.findings import Cell, Missed, Part, table

#: Of the runs; the log is played from its first complete day on.
SPAN_S = 12.0 * HOUR_S
#: What a checkpoint takes: of a small model on a local disk, and of large ones on a shared file system.
SAVES_S = (0.1, 2.0, 20.0)
FIXED_S = (30.0, 300.0, 1_800.0)
#: Mean times that drawn nodes stay and are away, as many as in the part of the log.
DRAWN_NODES, DRAWN_AWAY_S = 40, 1_800.0
DRAWN_STAY_S = (300.0, 3_600.0, 36_000.0)
#: The chosen interval may waste so much more than the best of the fixed ones.
MOST_EXCESS_SHARE = 0.1

#: Pool, seconds of a save, fixed interval or None.
Case = tuple[str, float, float | None]


@figure(
    "checkpoints",
    "Intervals between checkpoints",
    of=f"{SPAN_S / HOUR_S:.0f} h on nodes of the log, and on drawn nodes that stay for "
    f"{', '.join(f'{stay_s:.0f}' for stay_s in DRAWN_STAY_S)} s on average",
)
def checkpoint_intervals(context: Context) -> Iterator[Part]:
    pools = {"log": _some_nodes(context)} | {
        f"drawn, {stay_s:.0f} s": drawn_pool(stay_s, context.seed) for stay_s in DRAWN_STAY_S
    }
    cases = [(name, save_s, each_s) for name in pools for save_s in SAVES_S for each_s in (*FIXED_S, None)]
    runs = context.run_all(
        "checkpoint intervals",
        [lambda case=case: _run(context, pools, case) for case in cases],  # type: ignore[misc]
    )
    found = dict(zip(cases, runs, strict=True))
    yield table("checkpoints", "device-hours that bring no training", HEADING, _rows(found))
    yield (
        "A chosen interval is that of Daly (2006) for what a save takes and for the losses that the pool "
        "has shown so far, with assumptions that were made without these pools. Only a gang that loses "
        "all of its nodes loses training; one that keeps a node goes on."
    )
    for name, save_s in dict.fromkeys((name, save_s) for name, save_s, _ in cases):
        best_s = min(_wasted_s(found[name, save_s, each_s]) for each_s in FIXED_S)
        chosen_s = _wasted_s(found[name, save_s, None])
        if chosen_s > (1.0 + MOST_EXCESS_SHARE) * best_s:
            yield Missed(
                f"{name}, a save of {save_s:g} s: the chosen interval wastes {chosen_s / HOUR_S:.3g} "
                f"device-hours, the best fixed one {best_s / HOUR_S:.3g}; to reach: at most "
                f"{100.0 * MOST_EXCESS_SHARE:.0f} % more"
            )


HEADING = (
    *("pool", "a save takes, s", "interval, s", "lost, device-hours", "saving, device-hours"),
    *("both, device-hours", "images, billion"),
)


def _rows(found: Mapping[Case, SimulatedImages]) -> Iterator[tuple[Cell, ...]]:
    for (name, save_s, each_s), one in found.items():
        lost_s, saving_s = one.waste.unsaved_device_s, one.waste.saving_device_s
        yield (
            *(name, save_s, "chosen" if each_s is None else f"{each_s:.0f}"),
            *(lost_s / HOUR_S, saving_s / HOUR_S, (lost_s + saving_s) / HOUR_S, one.images / 1e9),
        )


def _wasted_s(one: SimulatedImages) -> float:
    return one.waste.unsaved_device_s + one.waste.saving_device_s


def _run(context: Context, pools: Mapping[str, Pool], case: Case) -> SimulatedImages:
    name, save_s, each_s = case
    from_s = FROM_S if name == "log" else 0.0
    trainers = read_trainers(context.data, DIVERSE)
    if name != "log":
        trainers = tuple(replace(one, submit_s=max(0.0, one.submit_s - FROM_S)) for one in trainers)
    parameters = {"t_fwd_s": USUAL_FORWARD_S}
    until_s = from_s + SPAN_S
    return simulated(pools[name], trainers, OPTIMISER, parameters, each_s, from_s, until_s, save_s)


def _some_nodes(context: Context) -> Pool:
    return read_log(context.data).of_nodes(read_some_names(context.data))


def drawn_pool(
    stay_s: float, seed: int, num_nodes: int = DRAWN_NODES, num_devices: int = 1, span_s: float = SPAN_S
) -> Pool:
    """Nodes of so many devices that stay and are away for exponentially distributed times."""
    random, intervals = np.random.default_rng(seed), list[IdleInterval]()
    for number in range(num_nodes):
        at_s = float(random.exponential(DRAWN_AWAY_S))
        while at_s < span_s:
            end_s = at_s + float(random.exponential(stay_s))
            intervals.append(IdleInterval(f"d{number}", at_s, end_s, num_devices))
            at_s = end_s + float(random.exponential(DRAWN_AWAY_S))
    return Pool(intervals=tuple(intervals), source=f"drawn with seed {seed}")

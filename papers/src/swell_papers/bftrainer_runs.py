"""Replays of BFTrainer's evaluation, each made once, and how well they use the nodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

import numpy as np

from swell.arrays import FloatArray
from swell.compiled import compile_always
from swell.sim.pool import HOUR_S, IdleInterval, Pool
from swell.solvers.knapsack import best_options
from swell_papers.bftrainer_inputs import DIVERSE, HPO, Trainer, of_model, read_log, read_trainers
from swell_papers.bftrainer_replay import PRINTED, STRICT, Accounting, Replayed, replay
from swell_papers.experiment import Context
from swell_papers.variants import variant_policy

#: The first trainer is submitted then, in seconds of the log, and the log ends.
FROM_S, UNTIL_S = 72_743.0, 691_186.0
#: Nodes of the machine in which one BFTrainer works (section 4.3).
NUM_NODES = 1024
OPTIMISER, CORRECTED, HEURISTIC = "bftrainer", "bftrainer_corrected", "bftrainer_equal_share"
#: Forward-looking times of Figures 7, 8, 9 and 13, in seconds.
FORWARD_S = (10, 20, 40, 60, 80, 100, 120, 160, 200, 240, 300)
#: Of the other figures (section 5.1.2).
USUAL_FORWARD_S = 120.0
USUAL_TRAINERS = 10
SAMPLES, EFFICIENCY = 0.0, 1.0
OBJECTIVES = {SAMPLES: "samples per second", EFFICIENCY: "scaling efficiency"}


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What one replay is of."""

    trainers: str = HPO
    policy: str = OPTIMISER
    forward_s: float = USUAL_FORWARD_S
    reclaim_share: float = 0.0  #: T_fwd follows from the pool; 0: it is `forward_s`
    max_trainers: int = USUAL_TRAINERS
    objective: float = SAMPLES
    cost_factor: float = 1.0
    are_losses_dearer: bool = True  #: `cost_factor` is of nodes that leave, too
    model: str | None = None  #: of all trainers; None: each its own
    num_nodes: int | None = NUM_NODES  #: of the machine, drawn; None: all
    until_s: float = UNTIL_S
    accounting: Accounting = PRINTED

    @property
    def strictly(self) -> Setting:
        """The same with costs in time."""
        return replace(self, accounting=STRICT)


@dataclass(frozen=True)
class ReplayOutcome:
    """One replay, and what it is compared with."""

    found: Replayed
    utilization_efficiency: float  #: U (section 4.1.2)

    @property
    def utilization_percent(self) -> float:
        return 100.0 * self.utilization_efficiency

    @property
    def return_on_investment(self) -> float | None:
        """Images made / images lost by the policy's changes (section 5.1.1)."""
        lost = float(self.found.rescale_lost.sum())
        return float(self.found.made.sum()) / lost if lost else None


def outcomes(context: Context, setting: Setting) -> ReplayOutcome:
    """Replay a setting and return what came of it; the same setting is replayed once."""
    return _outcomes(context.data, context.seed, setting)


def outcomes_of(context: Context, label: str, settings: Iterable[Setting]) -> list[ReplayOutcome]:
    """Replay many settings, which takes a while, and return what came of each."""
    return context.run_all(label, (partial(outcomes, context, setting) for setting in settings))


def both_ways(
    context: Context, label: str, settings: Iterable[Setting]
) -> list[tuple[ReplayOutcome, ReplayOutcome]]:
    """Each setting with costs as printed, and with costs in time."""
    wanted = list(settings)
    printed = outcomes_of(context, label, wanted)
    strict = outcomes_of(context, f"{label}, strict", (one.strictly for one in wanted))
    return list(zip(printed, strict, strict=True))


@cache
def _outcomes(data: Path, seed: int, setting: Setting) -> ReplayOutcome:
    compile_always()
    pool, trainers = _pool(data, seed, setting.num_nodes), _trainers(data, setting)
    found = _replay(pool, trainers, setting, setting.accounting)
    if setting.trainers == HPO:
        per_s = static_per_s([trainers[0]] * setting.max_trainers, found.equivalent_nodes)
        return ReplayOutcome(found, _share(found.images, per_s * found.duration_s))
    return ReplayOutcome(found, _share(found.images, _static_images(trainers, setting, found)))


def _replay(pool: Pool, trainers: Sequence[Trainer], setting: Setting, accounting: Accounting) -> Replayed:
    parameters = {"max_trainers": float(setting.max_trainers)}
    if setting.policy != HEURISTIC:
        parameters |= {
            "t_fwd_s": setting.forward_s,
            "reclaim_share": setting.reclaim_share,
            "efficiency_share": setting.objective,
        }
    policy = variant_policy(setting.policy, parameters)
    return replay(pool, trainers, policy, accounting, setting.max_trainers, FROM_S, setting.until_s)


@cache
def _pool(data: Path, seed: int, num_nodes: int | None) -> Pool:
    """So many nodes of the machine, drawn."""
    pool = read_log(data)
    if num_nodes is None:
        return pool
    names = sorted({one.node for one in pool.intervals})
    return pool.of_nodes(
        np.random.default_rng(seed).choice(names, min(num_nodes, len(names)), replace=False).tolist()
    )


@cache
def _trainers(data: Path, setting: Setting) -> tuple[Trainer, ...]:
    trainers = read_trainers(data, setting.trainers)
    if setting.model is not None:
        samples = read_trainers(data, DIVERSE)
        trainers = of_model(trainers, next(one for one in samples if one.model == setting.model))
    return tuple(one.with_costs(setting.cost_factor, setting.are_losses_dearer) for one in trainers)


# The same nodes, if they never left


def static_per_s(trainers: Sequence[Trainer], num_nodes: float) -> float:
    """Images/s at best of these trainers on nodes that stay; between two whole numbers on a line."""
    least = int(num_nodes)
    low, high = (_best_per_s(trainers, number) for number in (least, least + 1))
    return low + (num_nodes - least) * (high - low)


def _best_per_s(trainers: Sequence[Trainer], num_nodes: int) -> float:
    sizes = [trainer.sizes[trainer.sizes <= num_nodes] for trainer in trainers]
    starts = np.concatenate([[0], np.cumsum([len(some) for some in sizes])]).astype(np.int64)
    rates = np.concatenate([one.rates[some] for one, some in zip(trainers, sizes, strict=True)])
    return best_options(starts, np.concatenate(sizes), rates, np.zeros(len(trainers)), num_nodes).value


def _static_images(trainers: Sequence[Trainer], setting: Setting, found: Replayed) -> float:
    """The same trainers, one after the other, on the equivalent nodes, with changes that cost nothing."""
    free = [trainer.with_costs(0.0) for trainer in trainers]
    duration_s, least = found.duration_s, int(found.equivalent_nodes)
    until = replace(setting, until_s=FROM_S + duration_s)
    low, high = (
        _replay(_steady(number), free, until, STRICT).images if number else 0.0
        for number in (least, least + 1)
    )
    return low + (found.equivalent_nodes - least) * (high - low)


def _steady(num_nodes: int) -> Pool:
    nodes = (IdleInterval(f"n{number}", 0.0, 2 * UNTIL_S) for number in range(num_nodes))
    return Pool(tuple(nodes), "nodes that stay")


# In parts


def by_window(values: FloatArray, found: Replayed, edges_s: FloatArray) -> FloatArray:
    """(len(edges_s) - 1,) sums of a column that grows evenly over each row's time."""
    ends_s = np.append(found.at_s[:1], found.at_s + found.length_s)
    so_far = np.interp(edges_s, ends_s, np.append(0.0, np.cumsum(values)))
    parts: FloatArray = np.diff(so_far)
    return parts


def at_begin(values: FloatArray, found: Replayed, edges_s: FloatArray) -> FloatArray:
    """(len(edges_s) - 1,) sums of a column that is due at the begin of each row."""
    sums, _ = np.histogram(found.at_s, bins=edges_s, weights=values)
    return sums.astype(np.float64)


def windows(found: Sequence[Replayed], hours: float) -> FloatArray:
    """Edges of windows of so many hours that all of these replays cover."""
    last_s = min(float(one.at_s[-1] + one.length_s[-1]) for one in found)
    return np.arange(FROM_S, last_s + 1e-6, hours * HOUR_S)


def _share(part: float, whole: float) -> float:
    return part / whole if whole > 0.0 else 0.0

"""What an experiment of Saxena et al. runs, and what comes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from swell.arrays import FloatArray
from swell.model.job import Phase
from swell.sim.conditions import Conditions, set_up
from swell.sim.metrics import Metrics, metrics_of
from swell.sim.outcome import SimOutcome
from swell.sim.profiles.saxena import DEVICES_PER_NODE, ScalingModel, saxena
from swell.sim.simulate import simulate
from swell_papers.saxena_workload import MINUTE_S, Pattern, workload
from swell_papers.variants import variant_core

#: What the paper's simulator charges for a change.
FREE = "none"
#: Of the head: jobs take half an hour, and the policy has a period of its own.
SETTINGS = {"min_hold_s": 0.0, "report_plan_s": 60.0}

SJS, DROP, JCT = "SJS efficiency", "drop ratio", "completion [min]"
DIGITS = {SJS: 3, DROP: 3, JCT: 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class SaxenaLine:
    """A policy in a case, and what is printed of it.

    Args:
        label: the paper's word for it.
        drops: jobs that cannot start at once; None: the policy has no such parameter.
        paper: measure -> figure.
        parameters: of the policy, besides `drops`.
    """

    label: str
    policy: str
    drops: bool | None = True
    resize_cost: str = FREE
    paper: Mapping[str, float] = field(default_factory=dict)
    parameters: Mapping[str, float | str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SaxenaCase:
    """Jobs on a cluster.

    Args:
        categories: numbers of Table I, from 0.
        minutes: that each job takes on one device; None: those of its category.
        num_seeds: runs with other jobs, of which means are taken.
    """

    name: str
    pattern: Pattern
    num_devices: int
    categories: tuple[int, ...]
    lines: tuple[SaxenaLine, ...]
    minutes: float | None = None
    num_seeds: int = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class SaxenaRun:
    """What is kept of one simulation."""

    metrics: Metrics
    submit_s: FloatArray  #: (J,) ascending
    end_s: FloatArray  #: ascending, of jobs that succeeded

    def value(self, measure: str) -> float:
        values = {
            SJS: self.metrics.sjs_efficiency,
            DROP: self.metrics.drop_ratio,
            JCT: None if self.metrics.avg_jct_s is None else self.metrics.avg_jct_s / MINUTE_S,
        }
        value = values[measure]
        return float("nan") if value is None else value


@dataclass(frozen=True, slots=True, kw_only=True)
class SaxenaResult:
    """The runs of one line of one case."""

    case: SaxenaCase
    line: SaxenaLine
    runs: Sequence[SaxenaRun]

    def mean(self, measure: str) -> float:
        return float(np.mean([run.value(measure) for run in self.runs]))

    def count(self, name: str) -> float:
        """The mean of a field of the metrics."""
        return float(np.mean([getattr(run.metrics, name) for run in self.runs]))


def run_once(case: SaxenaCase, line: SaxenaLine, seed: int, model: ScalingModel | None = None) -> SaxenaRun:
    """One simulation; the same arguments lead to the same run, and several figures ask for it."""
    drops = {} if line.drops is None else {"drops": float(line.drops)}
    told = {**drops, **line.parameters}
    parameters = tuple(sorted(told.items()))
    arrivals = (case.pattern, case.num_devices, case.categories, seed, case.minutes)
    return _simulated(arrivals, line.policy, parameters, line.resize_cost, model)


@cache
def _simulated(
    arrivals: tuple[Pattern, int, tuple[int, ...], int, float | None],  #: arguments of `workload`
    policy: str,
    parameters: tuple[tuple[str, float | str], ...],
    resize_cost: str,
    model: ScalingModel | None,
) -> SaxenaRun:
    nodes = arrivals[1] // DEVICES_PER_NODE
    conditions = Conditions(nodes=nodes, devices_per_node=DEVICES_PER_NODE, resize_cost=resize_cost)
    core = variant_core(policy, SETTINGS, dict(parameters))
    scenario = set_up(workload(*arrivals), saxena(model), conditions)
    return _kept(simulate(core, scenario, with_offers=False))


def _kept(outcome: SimOutcome) -> SaxenaRun:
    ends_s = [job.end_s for job in outcome.jobs if job.phase is Phase.SUCCEEDED and job.end_s is not None]
    return SaxenaRun(
        metrics=metrics_of(outcome),
        submit_s=np.sort([job.submit_s for job in outcome.jobs]),
        end_s=np.sort(np.array(ends_s, dtype=np.float64)),
    )

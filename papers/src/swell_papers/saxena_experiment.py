"""One figure or table of Saxena et al.: jobs on a cluster, under several policies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import NamedTuple

from swell.sim.conditions import Conditions
from swell.sim.metrics import Metrics, metrics_of
from swell.sim.profiles.saxena import DEVICES_PER_NODE, fitted, saxena
from swell_papers.experiment import Claim, Context, Key, Measure, Picture, Results, Study
from swell_papers.saxena_workload import MINUTE_S, Pattern, workload
from swell_papers.variants import simulated_under

#: What the paper's simulator charges for a change.
FREE = "none"
#: Of the head: jobs take half an hour, and the policy has a period of its own.
SETTINGS = {"min_hold_s": 0.0, "report_plan_s": 60.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class SaxenaLine:
    """A policy in a case, and what is printed of it.

    Args:
        label: the paper's word for it.
        drops: jobs that cannot start at once; None: the policy has no such parameter.
        paper: name of a measure -> figure.
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


class SaxenaRun(NamedTuple):
    """What is kept of one simulation."""

    line: SaxenaLine
    metrics: Metrics


Column = Measure[SaxenaRun]
SJS = Column("SJS efficiency", lambda run: run.metrics.sjs_efficiency)
DROP = Column("drop ratio", lambda run: run.metrics.drop_ratio)
JCT = Column(
    "completion [min]", lambda run: run.metrics.avg_jct_s / MINUTE_S if run.metrics.avg_jct_s else None, 1
)
COMPLETED = Column("completed", lambda run: run.metrics.completed, 1)
MEASURES = (
    Column("jobs", lambda run: run.metrics.jobs, 1),
    COMPLETED,
    *(
        column
        for one in (SJS, DROP, JCT)
        for column in (
            Column(
                f"{one.name}, paper",
                partial(lambda name, run: run.line.paper.get(name), one.name),
                one.digits,
            ),
            one,
        )
    ),
    Column("resizes", lambda run: run.metrics.resizes, 1),
)


def run_once(case: SaxenaCase, line: SaxenaLine, seed: int) -> SaxenaRun:
    """One simulation; the same arguments lead to the same run, and several figures ask for it."""
    drops = {} if line.drops is None else {"drops": float(line.drops)}
    parameters = tuple(sorted({**drops, **line.parameters}.items()))
    arrivals = (case.pattern, case.num_devices, case.categories, seed, case.minutes)
    return SaxenaRun(line, _simulated(arrivals, line.policy, parameters, line.resize_cost))


@cache
def _simulated(
    arrivals: tuple[Pattern, int, tuple[int, ...], int, float | None],  #: arguments of `workload`
    policy: str,
    parameters: tuple[tuple[str, float | str], ...],
    resize_cost: str,
) -> Metrics:
    nodes = arrivals[1] // DEVICES_PER_NODE
    conditions = Conditions(nodes=nodes, devices_per_node=DEVICES_PER_NODE, resize_cost=resize_cost)
    jobs = workload(*arrivals)
    return metrics_of(simulated_under(policy, jobs, saxena(), conditions, SETTINGS, dict(parameters)))


def saxena_study(
    name: str,
    title: str,
    cases: Sequence[SaxenaCase],
    claims: Iterable[Claim[SaxenaRun]] = (),
) -> Study[SaxenaRun]:
    """Cases, and what the paper says of their lines."""

    def runs(context: Context) -> dict[Key, Callable[[], SaxenaRun]]:
        return {
            (case.name, line.label, seed): partial(run_once, case, line, seed)
            for case in cases
            for line in case.lines
            if context.is_run(line.policy)
            for seed in context.seeds(case.num_seeds)
        }

    def truth(context: Context, found: Results[SaxenaRun]) -> Iterator[str]:
        return _truth(cases, context)

    return Study(
        name=name,
        title=title,
        cases=runs,
        keys=("case", "line"),
        measures=MEASURES,
        caption="means of the runs",
        pictures=(Picture(measures=(COMPLETED.name,), x="line", panels="case", y_label="jobs completed"),),
        claims=tuple(claims),
        truth=truth,
    )


def _truth(cases: Sequence[SaxenaCase], context: Context) -> Iterator[str]:
    model = fitted()
    shares = ", ".join(f"{share:.3f}" for share in model.pair_shares[:3])
    told = ", ".join(f"{name}={value:g}" for name, value in SETTINGS.items())
    yield (
        f"the scaling model is the truth: overhead {model.overhead_share:.3f}, all-reduce of two devices "
        f"{shares} of a full step (categories 1 to 3), network {model.network:.2f}; noise 0; "
        f"seeds from {context.seed}; settings {told}"
    )
    for case in cases:
        pattern = case.pattern
        phases = (
            f", low {pattern.low:g}, every {pattern.phase_minutes:g} min" if pattern.phase_minutes else ""
        )
        numbers = ", ".join(str(at + 1) for at in case.categories)
        lengths = "of the categories' lengths" if case.minutes is None else f"of {case.minutes:g} min each"
        yield (
            f"{case.name}: {case.num_devices} devices, categories {numbers}, {lengths}; arrivals for "
            f"{pattern.minutes:g} min with load {pattern.high:g}{phases}; {case.num_seeds} runs"
        )

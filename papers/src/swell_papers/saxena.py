"""The evaluation of Saxena et al. (MASCOTS 2020, section IV)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import NamedTuple

from swell.sim.conditions import Conditions
from swell.sim.metrics import Metrics, metrics_of
from swell.sim.profiles.built_in import DEVICES_PER_NODE, TABLE_II, fitted, saxena
from swell_papers.experiment import Claim, Context, Key, Measure, Paper, Picture, Results, Study
from swell_papers.saxena_accuracy import accuracy_study
from swell_papers.saxena_workload import HALF_AN_HOUR, MINUTE_S, Pattern, workload
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

    return Study(
        name=name,
        title=title,
        cases=runs,
        keys=("case", "line"),
        measures=MEASURES,
        caption="means of the runs",
        pictures=(Picture(measures=(COMPLETED.name,), x="line", panels="case", y_label="jobs completed"),),
        claims=tuple(claims),
        truth=lambda context, found: _truth(cases, context),
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


ELASTIC, RANDOM, MAX, MIN = "elastic", "Random-BS", "Max-BS", "Min-BS"
POLICIES = {
    ELASTIC: "saxena",
    RANDOM: "saxena_random_batch",
    MAX: "saxena_max_batch",
    MIN: "saxena_min_batch",
}
#: Load of the low rate, with which jobs at their smallest batch take as long as is printed (IV-D); the high
#: rate is four times that (IV-A).
LOW_LOAD, HIGH_LOAD = 0.75, 3.0
HIGH = Pattern(name="high", minutes=240.0, high=HIGH_LOAD)
LOW = Pattern(name="low", minutes=240.0, high=LOW_LOAD)
BURSTY = Pattern(name="bursty", minutes=240.0, high=HIGH_LOAD, low=LOW_LOAD, phase_minutes=60.0)
#: The printed high rate (IV-A): `k_max` jobs in the run time of one, on 40 devices.
PRINTED = Pattern(name="high as printed", minutes=240.0, high=10 / 40)
#: Loads of the tables, that the paper only calls very high and very low.
VERY_HIGH, VERY_LOW = 1.0, 0.1
#: The same where the period alone decides.
PERIODIC_HIGH, PERIODIC_LOW = 0.9, 0.3
#: Seconds: of a checkpoint, a stop and a start, for what the paper measured on its cluster.
CHECKPOINT_COST = "30"
FOUR = tuple(f"{policy}, {told}" for told in ("dropping", "queueing") for policy in (ELASTIC, RANDOM))
#: Measures of which a row of a table prints figures, by how many these are.
PRINTED_OF = {2: (SJS.name, JCT.name), 3: (SJS.name, DROP.name, JCT.name)}


def _one_category(category: int, pattern: Pattern, baseline: str = RANDOM) -> SaxenaCase:
    return SaxenaCase(
        name=f"category {category}, {pattern.name}" + ("" if baseline == RANDOM else f", {baseline}"),
        pattern=pattern,
        num_devices=40,
        categories=(category - 1,),
        minutes=HALF_AN_HOUR,
        lines=tuple(SaxenaLine(label=label, policy=POLICIES[label]) for label in (ELASTIC, baseline)),
    )


def _lines(
    *rows: tuple[float, ...], names: Sequence[str] = FOUR, where: str = "", cost: str = FREE
) -> tuple[SaxenaLine, ...]:
    """Lines with the rows of a table: SJS efficiency, the drop ratio where jobs drop, completion."""
    return tuple(
        SaxenaLine(
            label=name + where,
            policy=POLICIES[name.partition(", ")[0]],
            drops=name.endswith("dropping"),
            resize_cost=cost,
            paper=dict(zip(PRINTED_OF[len(row)], row, strict=True)),
        )
        for name, row in zip(names, rows, strict=True)
    )


def _mixed(minutes: float, num_devices: int, num_seeds: int, *lines: SaxenaLine) -> tuple[SaxenaCase, ...]:
    """All categories, under the policy as it is by default; and with decisions every 10 minutes only, and the
    load that goes best with that."""
    case = SaxenaCase(
        name=f"{num_devices} devices, 10 min or 5 %",
        pattern=Pattern(
            name="very bursty", minutes=minutes, high=VERY_HIGH, low=VERY_LOW, phase_minutes=120.0
        ),
        num_devices=num_devices,
        categories=(0, 1, 2, 3),
        lines=lines,
        num_seeds=num_seeds,
    )
    periodic = replace(
        case,
        name=f"{num_devices} devices, 10 min",
        pattern=replace(case.pattern, high=PERIODIC_HIGH, low=PERIODIC_LOW),
        lines=tuple(replace(line, parameters={"ended_share": 1.0}) for line in lines),
    )
    return case, periodic


CATEGORY_CASES, RATE_CASES = (
    tuple(_one_category(category, pattern) for category in (1, 2, 3, 4)) for pattern in (HIGH, PRINTED)
)
ARRIVAL_CASES = (_one_category(1, LOW), _one_category(1, BURSTY))
MAX_CASES = tuple(_one_category(category, HIGH, MAX) for category in (1, 2, 3, 4))
MIN_CASES = (_one_category(1, HIGH, MIN), _one_category(1, LOW, MIN))
SIMULATED_40 = _lines((0.8046, 0.1009, 22.98), (0.5049, 0.3957, 28.10), (0.8603, 27.75), (0.4194, 320.32))
MEASURED_40 = _lines(
    *((0.8202, 0.1359, 24.97), (0.5131, 0.424, 34.12), (0.8953, 33.79), (0.4287, 351.02)),
    where=", cluster",
    cost=CHECKPOINT_COST,
)
SIMULATED_400 = _lines((0.81, 0.0123, 22.83), (0.4664, 0.3828, 27.84), (0.8153, 22.96), (0.4310, 166.82))
CASES_40 = _mixed(720.0, 40, 3, *SIMULATED_40)
CASES_40_BOTH = _mixed(720.0, 40, 3, *SIMULATED_40, *MEASURED_40)
CASES_400 = _mixed(480.0, 400, 1, *SIMULATED_400)


def _of(
    case: SaxenaCase, measure: Column, label: str, over: str = ""
) -> Callable[[Results[SaxenaRun]], float]:
    """A line's measure; with `over`, over that of another line."""
    return lambda found: (
        found.mean(measure.of, case.name, label) / (found.mean(measure.of, case.name, over) if over else 1.0)
    )


def _over_random(cases: Sequence[SaxenaCase], *gains: float) -> Iterator[Claim[SaxenaRun]]:
    """One claim for each case, with the printed gain."""
    for case, gain in zip(cases, gains, strict=True):
        text = f"{case.name}: jobs completed, elastic over Random-BS"
        of = _of(case, COMPLETED, ELASTIC, RANDOM)
        yield Claim(text=text, figure=gain, of=of)


def _gains(
    cases: Sequence[SaxenaCase], completed: float, drops: float, waiting: float
) -> Iterator[Claim[SaxenaRun]]:
    """What the elastic method gains over Random-BS, where jobs drop and where they queue."""
    ours, random, our_queue, random_queue = FOUR
    for case in cases:
        for text, figure, of in (
            (
                "jobs completed where jobs are dropped, elastic over Random-BS",
                completed,
                _of(case, COMPLETED, ours, random),
            ),
            ("share of jobs dropped, Random-BS over elastic", drops, _of(case, DROP, random, ours)),
            (
                "completion time where jobs queue, Random-BS over elastic",
                waiting,
                _of(case, JCT, random_queue, our_queue),
            ),
        ):
            yield Claim(text=f"{case.name}: {text}", figure=figure, of=of)


def _cells(cases: Sequence[SaxenaCase]) -> Iterator[Claim[SaxenaRun]]:
    """A claim for each printed figure."""
    for case in cases:
        for line in case.lines:
            for measure in (SJS, DROP, JCT):
                if (figure := line.paper.get(measure.name)) is not None:
                    text = f"{case.name}, {line.label}: {measure.name}"
                    yield Claim(text=text, figure=figure, of=_of(case, measure, line.label))


#: Where jobs are dropped, and where they queue, what is to be reached on 400 devices.
TARGETS: tuple[Claim[SaxenaRun], ...] = tuple(
    Claim(
        text=f"{CASES_400[0].name}, {label}: {measure.name}",
        figure=limit,
        of=_of(CASES_400[0], measure, label),
        way=">=" if measure is SJS else "<=",
        is_target=True,
    )
    for label, measure, limit in (
        (FOUR[0], SJS, 0.80),
        (FOUR[0], DROP, 0.03),
        (FOUR[0], JCT, 24.0),
        (FOUR[2], SJS, 0.80),
        (FOUR[2], JCT, 24.0),
    )
)
#: Claims of Figure 8 on category 1: text, the printed figure, ours.
LARGEST_AND_SMALLEST = (
    ("high rate: jobs completed, elastic over Max-BS", 10.0, _of(MAX_CASES[0], COMPLETED, ELASTIC, MAX)),
    ("high rate: jobs completed, elastic over Min-BS", 1.0, _of(MIN_CASES[0], COMPLETED, ELASTIC, MIN)),
    ("low rate: completion in minutes, elastic", 23.04, _of(MIN_CASES[1], JCT, ELASTIC)),
    ("low rate: completion in minutes, Min-BS", 27.39, _of(MIN_CASES[1], JCT, MIN)),
)
STUDIES = (
    accuracy_study(),
    saxena_study(
        name="fig5",
        title="Figure 5: effect of job categories, 40 devices, high arrival rate",
        cases=CATEGORY_CASES,
        claims=_over_random(CATEGORY_CASES, 1.82, 1.644, 1.90, 1.0),
    ),
    saxena_study(
        name="rates",
        title="Figure 5 at the arrival rate that section IV-A prints, 40 devices",
        cases=RATE_CASES,
        claims=_over_random(RATE_CASES, 1.82, 1.644, 1.90, 1.0),
    ),
    saxena_study(
        name="fig6",
        title="Figure 6: effect of arrival patterns, category 1, 40 devices",
        cases=ARRIVAL_CASES,
        claims=(
            *_over_random(ARRIVAL_CASES, 1.97, 2.19),
            *(
                Claim(
                    text=f"Table II, fitted: category 1 on two devices over one, {samples} samples each",
                    figure=printed,
                    of=lambda found, samples=samples: fitted().factor(0, 2, samples / max(TABLE_II)),  # type: ignore[misc]
                )
                for samples, printed in TABLE_II.items()
            ),
        ),
    ),
    saxena_study(
        name="fig7",
        title="Figure 7: dropping and queueing, all categories, 40 devices, 720 minutes",
        cases=CASES_40,
        claims=_gains(CASES_40, 1.5, 39.57 / 10.09, 320.32 / 27.75),
    ),
    saxena_study(
        name="fig8",
        title="Figure 8: the largest and the smallest batch, 40 devices",
        cases=(*MAX_CASES, *MIN_CASES),
        claims=(
            Claim(text=f"category 1, {text}", figure=figure, of=of)
            for text, figure, of in LARGEST_AND_SMALLEST
        ),
    ),
    saxena_study(
        name="fig9",
        title="Figure 9: dropping and queueing, all categories, 400 devices, 480 minutes",
        cases=CASES_400,
        claims=_gains(CASES_400, 1.6, 38.28 / 1.23, 166.82 / 22.96),
    ),
    saxena_study(
        name="table3",
        title="Table III: 40 devices",
        cases=CASES_40_BOTH,
        claims=_cells(CASES_40_BOTH),
    ),
    saxena_study(
        name="table4",
        title="Table IV: 400 devices",
        cases=CASES_400,
        claims=(*_cells(CASES_400), *TARGETS),
    ),
)
PAPER = Paper.with_page("saxena", "Saxena et al.", "it needs none", *STUDIES)

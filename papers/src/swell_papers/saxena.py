"""The evaluation of Saxena et al. (MASCOTS 2020, section IV)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from swell.sim.profiles.saxena import TABLE_II, fitted
from swell_papers.experiment import Claim, Paper, Results, Way
from swell_papers.page_texts import page_texts
from swell_papers.saxena_accuracy import accuracy_study
from swell_papers.saxena_experiment import (
    COMPLETED,
    DROP,
    FREE,
    JCT,
    SJS,
    Column,
    SaxenaCase,
    SaxenaLine,
    SaxenaRun,
    saxena_study,
)
from swell_papers.saxena_workload import HALF_AN_HOUR, Pattern

TEXTS = page_texts("saxena")
#: Why a claim does not come out.
WHY = TEXTS.reasons
ELASTIC, RANDOM, MAX, MIN = "elastic", "Random-BS", "Max-BS", "Min-BS"
POLICIES = {
    ELASTIC: "saxena",
    RANDOM: "saxena_random_batch",
    MAX: "saxena_max_batch",
    MIN: "saxena_min_batch",
    "resize-aware": "saxena_aware",
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


def _one_category(category: int, pattern: Pattern, baseline: str = RANDOM) -> SaxenaCase:
    return SaxenaCase(
        name=f"category {category}, {pattern.name}" + ("" if baseline == RANDOM else f", {baseline}"),
        pattern=pattern,
        num_devices=40,
        categories=(category - 1,),
        minutes=HALF_AN_HOUR,
        lines=tuple(SaxenaLine(label=label, policy=POLICIES[label]) for label in (ELASTIC, baseline)),
    )


def _over(
    case: SaxenaCase, measure: Column, first: str, second: str
) -> Callable[[Results[SaxenaRun]], float]:
    """The first line's measure over the second's."""
    return lambda found: found.mean(measure.of, case.name, first) / found.mean(measure.of, case.name, second)


def _mean(case: SaxenaCase, label: str, measure: Column) -> Callable[[Results[SaxenaRun]], float]:
    return lambda found: found.mean(measure.of, case.name, label)


def _over_random(
    cases: Sequence[SaxenaCase], *gains: float, why: str = "random batch"
) -> tuple[Claim[SaxenaRun], ...]:
    """One claim for each case, with the printed gain."""
    return tuple(
        Claim(
            text=f"{case.name}: jobs completed, elastic over Random-BS",
            figure=gain,
            of=_over(case, COMPLETED, ELASTIC, RANDOM),
            why=WHY[why],
        )
        for case, gain in zip(cases, gains, strict=True)
    )


CATEGORY_CASES = tuple(_one_category(category, HIGH) for category in (1, 2, 3, 4))
RATE_CASES = tuple(_one_category(category, PRINTED) for category in (1, 2, 3, 4))
ARRIVAL_CASES = (_one_category(1, LOW), _one_category(1, BURSTY))
BATCH_CASES = (
    *(_one_category(category, HIGH, MAX) for category in (1, 2, 3, 4)),
    _one_category(1, HIGH, MIN),
    _one_category(1, LOW, MIN),
)


def _line(label: str, name: str, *figures: float, drops: bool, cost: str = FREE) -> SaxenaLine:
    """Make a line with the printed figures of a row of Table III or IV."""
    measures = (SJS, DROP, JCT) if drops else (SJS, JCT)
    names = (measure.name for measure in measures)
    return SaxenaLine(
        label=name,
        policy=POLICIES[label],
        drops=drops,
        resize_cost=cost,
        paper=dict(zip(names, figures, strict=True)) if figures else {},
    )


def _cells(case: SaxenaCase) -> tuple[Claim[SaxenaRun], ...]:
    """A claim for each printed figure."""
    return tuple(
        Claim(
            text=f"{case.name}, {line.label}: {measure.name}",
            figure=line.paper[measure.name],
            of=_mean(case, line.label, measure),
            why=WHY["elastic" if line.policy == "saxena" else "kept" if line.drops else "queue"],
        )
        for line in case.lines
        for measure in (SJS, DROP, JCT)
        if measure.name in line.paper
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


SIMULATED_40 = (
    _line(ELASTIC, "elastic, dropping", 0.8046, 0.1009, 22.98, drops=True),
    _line(RANDOM, "Random-BS, dropping", 0.5049, 0.3957, 28.10, drops=True),
    _line(ELASTIC, "elastic, queueing", 0.8603, 27.75, drops=False),
    _line(RANDOM, "Random-BS, queueing", 0.4194, 320.32, drops=False),
)
MEASURED_40 = (
    _line(ELASTIC, "elastic, dropping, cluster", 0.8202, 0.1359, 24.97, drops=True, cost=CHECKPOINT_COST),
    _line(RANDOM, "Random-BS, dropping, cluster", 0.5131, 0.424, 34.12, drops=True, cost=CHECKPOINT_COST),
    _line(ELASTIC, "elastic, queueing, cluster", 0.8953, 33.79, drops=False, cost=CHECKPOINT_COST),
    _line(RANDOM, "Random-BS, queueing, cluster", 0.4287, 351.02, drops=False, cost=CHECKPOINT_COST),
    _line("resize-aware", "resize-aware, dropping", drops=True, cost=CHECKPOINT_COST),
    _line("resize-aware", "resize-aware, queueing", drops=False, cost=CHECKPOINT_COST),
)
SIMULATED_400 = (
    _line(ELASTIC, "elastic, dropping", 0.81, 0.0123, 22.83, drops=True),
    _line(RANDOM, "Random-BS, dropping", 0.4664, 0.3828, 27.84, drops=True),
    _line(ELASTIC, "elastic, queueing", 0.8153, 22.96, drops=False),
    _line(RANDOM, "Random-BS, queueing", 0.4310, 166.82, drops=False),
)
CASES_40, CASES_40_BOTH = (
    _mixed(720.0, 40, 3, *SIMULATED_40),
    _mixed(720.0, 40, 3, *SIMULATED_40, *MEASURED_40),
)
CASES_400 = _mixed(480.0, 400, 1, *SIMULATED_400)


def _gains(case: SaxenaCase, completed: float, drops: float, waiting: float) -> tuple[Claim[SaxenaRun], ...]:
    told = (
        (
            "jobs completed where jobs are dropped, elastic over Random-BS",
            completed,
            _over(case, COMPLETED, "elastic, dropping", "Random-BS, dropping"),
            "random batch",
        ),
        (
            "share of jobs dropped, Random-BS over elastic",
            drops,
            _over(case, DROP, "Random-BS, dropping", "elastic, dropping"),
            "elastic",
        ),
        (
            "completion time where jobs queue, Random-BS over elastic",
            waiting,
            _over(case, JCT, "Random-BS, queueing", "elastic, queueing"),
            "queue",
        ),
    )
    return tuple(
        Claim(text=f"{case.name}: {text}", figure=paper, of=of, why=WHY[why]) for text, paper, of, why in told
    )


#: Line, measure, and what it is to be.
TO_REACH: tuple[tuple[str, Column, Way, float], ...] = (
    ("elastic, dropping", SJS, ">=", 0.80),
    ("elastic, dropping", DROP, "<=", 0.03),
    ("elastic, dropping", JCT, "<=", 24.0),
    ("elastic, queueing", SJS, ">=", 0.80),
    ("elastic, queueing", JCT, "<=", 24.0),
)
TABLE_4 = saxena_study(
    name="table4",
    title="Table IV: 400 devices",
    cases=CASES_400,
    claims=(
        *(claim for case in CASES_400 for claim in _cells(case)),
        *(
            Claim(
                text=f"{CASES_400[0].name}, {label}: {measure.name}",
                figure=limit,
                of=_mean(CASES_400[0], label, measure),
                way=way,
                is_target=True,
            )
            for label, measure, way, limit in TO_REACH
        ),
    ),
)
PAPER = Paper(
    name="saxena",
    title="Saxena et al.",
    inputs="it needs none",
    introduction=TEXTS.introduction,
    experiments=(
        accuracy_study(
            name="fig2", title="Figure 2: accuracy while the batch changes", remarks=TEXTS.remarks["fig2"]
        ),
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
            claims=_over_random(RATE_CASES, 1.82, 1.644, 1.90, 1.0, why="printed rate"),
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
            claims=tuple(
                claim for case in CASES_40 for claim in _gains(case, 1.5, 39.57 / 10.09, 320.32 / 27.75)
            ),
        ),
        saxena_study(
            name="fig8",
            title="Figure 8: the largest and the smallest batch, 40 devices",
            cases=BATCH_CASES,
            claims=(
                Claim(
                    text="category 1, high rate: jobs completed, elastic over Max-BS",
                    figure=10.0,
                    of=_over(BATCH_CASES[0], COMPLETED, ELASTIC, MAX),
                    why=WHY["max batch"],
                ),
                Claim(
                    text="category 1, high rate: jobs completed, elastic over Min-BS",
                    figure=1.0,
                    of=_over(BATCH_CASES[4], COMPLETED, ELASTIC, MIN),
                    why=WHY["min batch"],
                ),
                *(
                    Claim(
                        text=f"category 1, low rate: completion in minutes, {label}",
                        figure=paper,
                        of=_mean(BATCH_CASES[5], label, JCT),
                        why=WHY["min batch"],
                    )
                    for label, paper in ((ELASTIC, 23.04), (MIN, 27.39))
                ),
            ),
            remarks=TEXTS.remarks["fig8"],
        ),
        saxena_study(
            name="fig9",
            title="Figure 9: dropping and queueing, all categories, 400 devices, 480 minutes",
            cases=CASES_400,
            claims=tuple(
                claim for case in CASES_400 for claim in _gains(case, 1.6, 38.28 / 1.23, 166.82 / 22.96)
            ),
        ),
        saxena_study(
            name="table3",
            title="Table III: 40 devices",
            cases=CASES_40_BOTH,
            claims=tuple(claim for case in CASES_40_BOTH for claim in _cells(case)),
            remarks=TEXTS.remarks["table3"],
        ),
        TABLE_4,
    ),
)

"""The evaluation of Saxena et al. (MASCOTS 2020, section IV)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from swell_papers.experiment import Claim, Paper, Way
from swell_papers.page_texts import page_texts
from swell_papers.saxena_accuracy import AccuracyExperiment
from swell_papers.saxena_cases import DROP, JCT, SJS, SaxenaCase, SaxenaLine, SaxenaResult
from swell_papers.saxena_experiment import Found, saxena_study
from swell_papers.saxena_tables import MANY_LOADS, Grid, table_2
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


SaxenaClaim = Claim[tuple[str, str], SaxenaResult]


def _claim(text: str, paper: float, of: Callable[[Found], float], why: str) -> SaxenaClaim:
    return Claim(text=text, figure=paper, of=of, why=why)


def _one_category(category: int, pattern: Pattern, baseline: str = RANDOM) -> SaxenaCase:
    return SaxenaCase(
        name=f"category {category}, {pattern.name}" + ("" if baseline == RANDOM else f", {baseline}"),
        pattern=pattern,
        num_devices=40,
        categories=(category - 1,),
        minutes=HALF_AN_HOUR,
        lines=tuple(SaxenaLine(label=label, policy=POLICIES[label]) for label in (ELASTIC, baseline)),
    )


def _completed(case: SaxenaCase, first: str, second: str) -> Callable[[Found], float]:
    """How many times as many jobs the first line completes as the second."""
    return lambda found: (
        found[case.name, first].count("completed") / found[case.name, second].count("completed")
    )


def _mean(case: SaxenaCase, label: str, measure: str) -> Callable[[Found], float]:
    return lambda found: found[case.name, label].mean(measure)


def _times(case: SaxenaCase, first: str, second: str, measure: str) -> Callable[[Found], float]:
    """The first line's measure over the second's."""
    return lambda found: found[case.name, first].mean(measure) / found[case.name, second].mean(measure)


def _over_random(
    cases: tuple[SaxenaCase, ...], *gains: float, why: str = "random batch"
) -> tuple[SaxenaClaim, ...]:
    """One claim for each case, with the printed gain."""
    text = "jobs completed, elastic over Random-BS"
    return tuple(
        _claim(f"{case.name}: {text}", gain, _completed(case, ELASTIC, RANDOM), WHY[why])
        for case, gain in zip(cases, gains, strict=True)
    )


FIGURE_2 = AccuracyExperiment(name="fig2", title="Figure 2: accuracy while the batch changes")

CATEGORY_CASES = tuple(_one_category(category, HIGH) for category in (1, 2, 3, 4))
FIGURE_5 = saxena_study(
    name="fig5",
    title="Figure 5: effect of job categories, 40 devices, high arrival rate",
    cases=CATEGORY_CASES,
    claims=_over_random(CATEGORY_CASES, 1.82, 1.644, 1.90, 1.0),
)

ARRIVAL_CASES = (_one_category(1, LOW), _one_category(1, BURSTY))
FIGURE_6 = saxena_study(
    name="fig6",
    title="Figure 6: effect of arrival patterns, category 1, 40 devices",
    cases=ARRIVAL_CASES,
    claims=_over_random(ARRIVAL_CASES, 1.97, 2.19),
    more=(table_2,),
)

BATCH_CASES = (
    *(_one_category(category, HIGH, MAX) for category in (1, 2, 3, 4)),
    _one_category(1, HIGH, MIN),
    _one_category(1, LOW, MIN),
)
FIGURE_8 = saxena_study(
    name="fig8",
    title="Figure 8: the largest and the smallest batch, 40 devices",
    cases=BATCH_CASES,
    claims=(
        _claim(
            "category 1, high rate: jobs completed, elastic over Max-BS",
            10.0,
            _completed(BATCH_CASES[0], ELASTIC, MAX),
            WHY["max batch"],
        ),
        _claim(
            "category 1, high rate: jobs completed, elastic over Min-BS",
            1.0,
            _completed(BATCH_CASES[4], ELASTIC, MIN),
            WHY["min batch"],
        ),
        *(
            _claim(
                f"category 1, low rate: completion in minutes, {label}",
                paper,
                _mean(BATCH_CASES[5], label, JCT),
                WHY["min batch"],
            )
            for label, paper in ((ELASTIC, 23.04), (MIN, 27.39))
        ),
    ),
    remarks=(
        "The caption of Figure 8(c) says high rate, the text of IV-D low rate for its completion times; both "
        "are run.",
    ),
)


RATE_CASES = tuple(_one_category(category, PRINTED) for category in (1, 2, 3, 4))
RATES = saxena_study(
    name="rates",
    title="Figure 5 at the arrival rate that section IV-A prints, 40 devices",
    cases=RATE_CASES,
    claims=_over_random(RATE_CASES, 1.82, 1.644, 1.90, 1.0, why="printed rate"),
)


def _line(label: str, name: str, *figures: float, drops: bool, cost: str = "none") -> SaxenaLine:
    """Make a line with the printed figures of a row of Table III or IV."""
    measures = (SJS, DROP, JCT) if drops else (SJS, JCT)
    return SaxenaLine(
        label=name,
        policy=POLICIES[label],
        drops=drops,
        resize_cost=cost,
        paper=dict(zip(measures, figures, strict=True)) if figures else {},
    )


def _reason(line: SaxenaLine) -> str:
    if line.policy == "saxena":
        return "elastic"
    return "kept" if line.drops else "queue"


def _cells(case: SaxenaCase) -> tuple[SaxenaClaim, ...]:
    """A claim for each printed figure."""
    return tuple(
        _claim(
            f"{case.name}, {line.label}: {measure}",
            paper,
            _mean(case, line.label, measure),
            WHY[_reason(line)],
        )
        for line in case.lines
        for measure, paper in line.paper.items()
    )


def _mixed(minutes: float, num_devices: int, num_seeds: int, *lines: SaxenaLine) -> SaxenaCase:
    """All categories, under the policy as it is by default."""
    return SaxenaCase(
        name=f"{num_devices} devices, 10 min or 5 %",
        pattern=Pattern(
            name="very bursty", minutes=minutes, high=VERY_HIGH, low=VERY_LOW, phase_minutes=120.0
        ),
        num_devices=num_devices,
        categories=(0, 1, 2, 3),
        lines=lines,
        num_seeds=num_seeds,
    )


def _periodic(case: SaxenaCase) -> SaxenaCase:
    """The same with decisions every 10 minutes only, and the load that goes best with that."""
    return replace(
        case,
        name=f"{case.num_devices} devices, 10 min",
        pattern=replace(case.pattern, high=PERIODIC_HIGH, low=PERIODIC_LOW),
        lines=tuple(replace(line, parameters={"ended_share": 1.0}) for line in case.lines),
    )


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
CASE_40 = _mixed(720.0, 40, 3, *SIMULATED_40)
CASE_40_BOTH = _mixed(720.0, 40, 3, *SIMULATED_40, *MEASURED_40)
CASE_400 = _mixed(480.0, 400, 1, *SIMULATED_400)
CASES_40, CASES_40_BOTH = (CASE_40, _periodic(CASE_40)), (CASE_40_BOTH, _periodic(CASE_40_BOTH))
CASES_400 = CASE_400, _periodic(CASE_400)


def _gains(case: SaxenaCase, completed: float, drops: float, waiting: float) -> tuple[SaxenaClaim, ...]:
    dropped, queued = (
        ("elastic, dropping", "Random-BS, dropping"),
        ("Random-BS, queueing", "elastic, queueing"),
    )
    told = (
        (
            "jobs completed where jobs are dropped, elastic over Random-BS",
            completed,
            _completed(case, *dropped),
            "random batch",
        ),
        (
            "share of jobs dropped, Random-BS over elastic",
            drops,
            _times(case, *dropped[::-1], DROP),
            "elastic",
        ),
        (
            "completion time where jobs queue, Random-BS over elastic",
            waiting,
            _times(case, *queued, JCT),
            "queue",
        ),
    )
    return tuple(_claim(f"{case.name}: {text}", paper, of, WHY[why]) for text, paper, of, why in told)


FIGURE_7 = saxena_study(
    name="fig7",
    title="Figure 7: dropping and queueing, all categories, 40 devices, 720 minutes",
    cases=CASES_40,
    claims=tuple(claim for case in CASES_40 for claim in _gains(case, 1.5, 39.57 / 10.09, 320.32 / 27.75)),
)
TABLE_3 = saxena_study(
    name="table3",
    title="Table III: 40 devices",
    cases=CASES_40_BOTH,
    claims=tuple(claim for case in CASES_40_BOTH for claim in _cells(case)),
    remarks=(
        "The lines `cluster` are what the paper measured on its machines, where each change is a checkpoint, "
        f"a stop and a start; here each takes {CHECKPOINT_COST} s, a guess. `resize-aware` is our variant, "
        "which counts that cost.",
    ),
    more=(
        Grid(case=CASE_40, networks=(2.0, 4.0, 8.0), spreads=(1.0, 4.0)).of_models,
        Grid(case=CASE_40, loads=MANY_LOADS).of_loads,
    ),
)
FIGURE_9 = saxena_study(
    name="fig9",
    title="Figure 9: dropping and queueing, all categories, 400 devices, 480 minutes",
    cases=CASES_400,
    claims=tuple(claim for case in CASES_400 for claim in _gains(case, 1.6, 38.28 / 1.23, 166.82 / 22.96)),
)
#: Line, measure, and what it is to be.
TO_REACH: tuple[tuple[str, str, Way, float], ...] = (
    ("elastic, dropping", SJS, ">=", 0.80),
    ("elastic, dropping", DROP, "<=", 0.03),
    ("elastic, dropping", JCT, "<=", 24.0),
    ("elastic, queueing", SJS, ">=", 0.80),
    ("elastic, queueing", JCT, "<=", 24.0),
)
TARGETS = tuple(
    Claim(
        text=f"{CASE_400.name}, {label}: {measure}",
        figure=limit,
        of=_mean(CASE_400, label, measure),
        way=way,
        is_target=True,
    )
    for label, measure, way, limit in TO_REACH
)
TABLE_4 = saxena_study(
    name="table4",
    title="Table IV: 400 devices",
    cases=CASES_400,
    claims=(*(claim for case in CASES_400 for claim in _cells(case)), *TARGETS),
    more=(Grid(case=CASE_400, networks=(4.0,), spreads=(1.0, 4.0)).of_models,),
)

PAPER = Paper(
    name="saxena",
    title="Saxena et al.",
    inputs="it needs none",
    introduction=TEXTS.introduction,
    experiments=(FIGURE_2, FIGURE_5, RATES, FIGURE_6, FIGURE_7, FIGURE_8, FIGURE_9, TABLE_3, TABLE_4),
)

"""BFTrainer's evaluation: settings of runs by figure, what is measured of them, and what the paper prints."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise

import numpy as np

from swell.arrays import BoolArray, FloatArray
from swell.sim.pool import HOUR_S
from swell_papers.bftrainer_inputs import ALL_INPUTS, DIVERSE, FIGURE_1, FIGURE_6, FIRST, MODELS
from swell_papers.bftrainer_runs import HEURISTIC, OPTIMISER, PoolRun, Setting, measured
from swell_papers.experiment import Claim, Context, Key, Measure, Paper, Picture, Results, Study, Way
from swell_papers.findings import Cell, Part, chart, table

CONDITIONS = (
    "eight days of Summit's idle nodes, from 72,743 s of the log on; one trainer each 36 s; equation 16 as "
    "printed, solved exactly; in the platform's simulator, where a change costs time; 1,024 nodes, where no "
    "others are named"
)
Found = Results[PoolRun]
#: A figure of all runs.
Ours = Callable[[Found], float]
#: More of what a study tells.
Tell = Callable[[Context, Found], Iterator[Part]]


RunMeasure = Measure[PoolRun]


def study(
    name: str,
    title: str,
    keys: tuple[str, ...],
    settings: Mapping[Key, Setting],
    shown: Sequence[RunMeasure] = (),
    measures: Sequence[RunMeasure] = (),
    claims: Sequence[Claim[PoolRun]] = (),
    tell: Tell = lambda context, found: iter(()),
) -> Study[PoolRun]:
    """A study of runs on idle nodes.

    Args:
        shown: measures with a picture: along the first key, with a line for each word of the second.
        measures: further ones.
    """
    lines, letters = [*keys, "measure"][1], "abc" if len(shown) > 1 else ("",)
    return Study(
        name=name,
        title=title,
        truth=lambda context, found: (f"{CONDITIONS}; drawn with seed {context.seed}",),
        cases=lambda context: {
            key: partial(
                measured, context.data, context.seed, one._replace(span_s=one.span_s / context.shorter)
            )
            for key, one in settings.items()
        },
        keys=keys,
        measures=(*shown, *measures),
        pictures=[
            Picture(measures=(one.name,), x=keys[0], lines=lines, kind="lines", name=letter)
            for letter, one in zip(letters, shown, strict=False)
        ],
        claims=claims,
        tell=tell,
        needs=ALL_INPUTS,
    )


def claim(text: str, way: Way, figure: float, ours: Ours, is_target: bool = False) -> Claim[PoolRun]:
    """A figure that is printed, or to be reached."""
    return Claim(text=text, figure=figure, of=lambda found: float(ours(found)), way=way, is_target=is_target)


def at(key: Key, one: RunMeasure, way: Way, figure: float, is_target: bool = False) -> Claim[PoolRun]:
    """A figure of one line of the table."""
    text = f"{one.name}; {', '.join(map(str, key))}"
    return claim(text, way, figure, lambda found: found.mean(one.of, *key), is_target)


def over(key: Key, other: Key, one: RunMeasure, way: Way, figure: float) -> Claim[PoolRun]:
    """A figure of one line of the table / that of another."""
    text = f"{one.name}; {', '.join(map(str, key))} / {', '.join(map(str, other))}"
    return claim(
        text, way, figure, lambda found: found.mean(one.of, *key) / (found.mean(one.of, *other) or np.nan)
    )


U = RunMeasure("U, %", PoolRun.utilization_percent, 1)
UNOCCUPIED = RunMeasure("unoccupied, % of the nodes' time", lambda run: run.unoccupied_percent, 1)
BY_CHANGES = RunMeasure("lost by changes of the policy, million images", lambda run: run.lost(False) / 1e6, 0)
WITH_NODES = RunMeasure("lost by nodes that left, million images", lambda run: run.lost(True) / 1e6, 0)
IMAGES = RunMeasure("images, billion", lambda run: run.told_images / 1e9)

# Section 5.1: a thousand equal trainers

FORWARD, POLICY = "T_fwd, s", "policy"
USUAL, BASELINE = Setting(), Setting(policy=HEURISTIC)
EQUAL = ("-", HEURISTIC)
BY_FORWARD: dict[Key, Setting] = {
    **{(str(time), OPTIMISER): USUAL._replace(forward_s=float(time)) for time in (10, 40, 120, 160, 300)},
    EQUAL: BASELINE,
}


def return_on_investment(run: PoolRun) -> float | None:
    """Images made / images lost by the policy's changes (section 5.1.1)."""
    return run.images() / run.lost(False) if run.lost(False) else None


PREEMPTED = RunMeasure(
    "preempted within T_fwd, %", lambda run: run.preempted_percent(run.setting.forward_s), 1
)
COST = RunMeasure(
    "cost of a decision, 1,000 images", lambda run: run.lost(False) / 1e3 / len(run.decided_s), 1
)
RETURN = RunMeasure("return on investment", return_on_investment, 1)
MADE = RunMeasure("images a decision, million", lambda run: run.images() / 1e6 / len(run.decided_s), 2)
by_forward = partial(study, keys=(FORWARD, POLICY), settings=BY_FORWARD)
FIGURE_7 = by_forward(
    "fig7",
    "Figure 7: forward-looking time, preemption and the cost of changes",
    shown=[PREEMPTED, COST],
    claims=[at(("160", OPTIMISER), PREEMPTED, "~", 90.0), over(EQUAL, ("10", OPTIMISER), COST, "~", 76.0)],
)
FIGURE_8 = by_forward(
    "fig8",
    "Figure 8: return on investment",
    shown=[RETURN],
    measures=[MADE],
    claims=[over(("10", OPTIMISER), ("300", OPTIMISER), RETURN, ">=", 1.0)],
)
FIGURE_9 = by_forward(
    "fig9",
    "Figure 9: utilization efficiency of 1,000 equal trainers",
    shown=[U],
    claims=[
        at(("10", OPTIMISER), U, ">=", 79.0),
        at(("120", OPTIMISER), U, ">=", 84.0, is_target=True),
        at(EQUAL, U, "~", 75.0),
    ],
)

# Figures 10 and 11: over a week

over_week = partial(study, keys=(POLICY,), settings={(OPTIMISER,): USUAL, (HEURISTIC,): BASELINE})
SIX_HOURS, HALF_DAY = 6.0, 12.0


def edges(runs: Iterable[PoolRun], hours: float) -> FloatArray:
    """Edges in seconds of the whole windows of so many hours that all runs cover."""
    return np.arange(0.0, min(run.until_s for run in runs) + 1e-6, hours * HOUR_S)


def over_time(hours: float, **shown: tuple[str, Callable[[PoolRun, float, float], float]]) -> Tell:
    """Pictures, each of what is told of a run from a moment on until another, in windows of so many hours."""

    def tell(context: Context, found: Found) -> Iterator[Part]:
        spans = list(pairwise(edges(found.values(), hours).tolist()))
        x = ("hours", [f"{from_s / HOUR_S:.0f}" for from_s, _ in spans])
        for name, (label, of) in shown.items():
            lines = {str(*key): [of(run, *span) for span in spans] for key, run in found.items()}
            yield chart(name, label, "lines", x, label, lines)

    return tell


def mean_utilization(run: PoolRun) -> float:
    """Mean U of windows of six hours, in %."""
    return float(np.mean([run.utilization_percent(*span) for span in pairwise(edges([run], SIX_HOURS))]))


def leads(found: Found, hours: float = 0.0) -> FloatArray:
    """Images of the optimiser / of equal shares in each window; 0 hours: between two changes of the pool.

    Only of those in which both make some.
    """
    ours, theirs = found[OPTIMISER,], found[HEURISTIC,]
    edges_s = edges(found.values(), hours) if hours else ours.moments_s[ours.moments_s <= theirs.until_s]
    made, others = np.diff(ours.images_by(edges_s)), np.diff(theirs.images_by(edges_s))
    is_told = (made > 0.0) & (others > 0.0)
    return made[is_told] / others[is_told]


def percent(is_counted: Callable[[FloatArray], BoolArray]) -> Ours:
    """Share of the times between two changes of the pool."""
    return lambda found: 100.0 * float(np.mean(is_counted(leads(found))))


MEAN_U = RunMeasure("U of six hours in %, mean", mean_utilization, 1)
FIGURE_10 = over_week(
    "fig10",
    "Figure 10: utilization efficiency over a week",
    measures=[MEAN_U],
    claims=[
        at((OPTIMISER,), MEAN_U, ">=", 80.0),
        claim("most images / equal shares' in 6 h", "~", 1.32, lambda found: leads(found, SIX_HOURS).max()),
        claim("between events: fewer than equal shares, %", "<=", 6.9, percent(lambda times: times < 0.999)),
        claim("twice as many or more, %", "~", 11.0, percent(lambda times: times >= 2.0)),
        claim("five times as many or more, %", "~", 3.0, percent(lambda times: times >= 5.0)),
        claim("times as many, mean", "~", 2.9, lambda found: leads(found).mean()),
    ],
    tell=over_time(SIX_HOURS, fig10=(U.name, PoolRun.utilization_percent)),
)
FIGURE_11 = over_week(
    "fig11",
    "Figure 11: what preemption and changes cost",
    measures=[WITH_NODES, BY_CHANGES],
    claims=[
        over((OPTIMISER,), (HEURISTIC,), WITH_NODES, "~", 1.0),
        over((OPTIMISER,), (HEURISTIC,), BY_CHANGES, "<=", 0.5),
    ],
    tell=over_time(
        HALF_DAY,
        fig11a=(WITH_NODES.name, lambda run, *span: run.lost(True, *span) / 1e6),
        fig11b=(BY_CHANGES.name, lambda run, *span: run.lost(False, *span) / 1e6),
    ),
)

# Sections 5.2 and 5.3: trainers of seven models, two objectives, and how many at one time

MOST, OBJECTIVE, SAMPLES, EFFICIENCY = "Pjmax", "objective", "samples per second", "scaling efficiency"
MOST_TRAINERS = (5, 10, 20, 35)
ALL_MODELS = Setting(trainers=DIVERSE)
TWO_OBJECTIVES = {SAMPLES: ALL_MODELS, EFFICIENCY: ALL_MODELS._replace(efficiency_share=1.0)}
BY_MOST: dict[Key, Setting] = {
    (str(most), objective): setting._replace(max_trainers=most)
    for objective, setting in TWO_OBJECTIVES.items()
    for most in MOST_TRAINERS
}


def hours(model: str, label: str) -> RunMeasure:
    return RunMeasure(label, lambda run: run.mean_hours(model), 2)


def spread(run: PoolRun) -> float:
    """The longest mean run time of a model / the shortest."""
    told = [one for model in MODELS if (one := run.mean_hours(model)) is not None]
    return max(told) / min(told)


SPREAD = RunMeasure("longest / shortest", spread, 1)
FIGURE_12 = study(
    "fig12",
    "Figure 12: run times in hours under two objectives",
    (OBJECTIVE,),
    {(objective,): setting for objective, setting in TWO_OBJECTIVES.items()},
    measures=[*(hours(model, label) for model, label in MODELS.items()), SPREAD],
    claims=[at((SAMPLES,), SPREAD, ">=", 40.0), at((EFFICIENCY,), SPREAD, "<=", 4.0)],
)
FIGURE_13 = study(
    "fig13",
    "Figure 13: utilization efficiency under two objectives",
    (FORWARD, OBJECTIVE),
    {
        (str(time_s), objective): setting._replace(forward_s=float(time_s))
        for objective, setting in TWO_OBJECTIVES.items()
        for time_s in (10, 120, 300)
    },
    [U],
    claims=[
        claim("least U, %", ">=", 79.0, lambda found: min(map(PoolRun.utilization_percent, found.values()))),
        over(("120", EFFICIENCY), ("120", SAMPLES), U, ">=", 1.0),
    ],
)
#: Of the pool, for as many images as 1,000 trainers process (Eq. 17).
INTEGRAL = RunMeasure(
    "1,000 node-hours for 1,000 trainers",
    lambda run: run.pool.node_s(0.0, run.until_s) / HOUR_S * 130e6 / run.images(),
    1,
)
HOURS = RunMeasure("mean run time, hours", PoolRun.mean_hours, 2)
MANY, FEW = ("35", SAMPLES), ("5", SAMPLES)
FIGURE_14 = study(
    "fig14",
    "Figure 14: trainers at one time",
    (MOST, OBJECTIVE),
    BY_MOST,
    [INTEGRAL, HOURS, U],
    [UNOCCUPIED],
    [
        over(MANY, FEW, INTEGRAL, "~", 0.72),
        over(MANY, FEW, HOURS, "~", 5.42),
        at(FEW, U, "~", 70.0),
        at(MANY, U, ">=", 90.0),
        at(FEW, UNOCCUPIED, "~", 12.4),
        at(("10", SAMPLES), UNOCCUPIED, "~", 2.1),
        at(MANY, UNOCCUPIED, "<=", 0.5),
    ],
)
#: Of Tables 3 and 4, in print: hours with so many trainers at one time.
PRINTED_HOURS = {
    "AlexNet": ((0.5, 0.6, 0.6, 0.6), (0.94, 2.4, 5.3, 8.8)),
    "resnet18": ((0.4, 0.4, 0.4, 0.5), (0.77, 1.1, 1.9, 2.6)),
    "mnasnet1": ((0.7, 0.7, 0.8, 1.1), (1.15, 2.3, 5.5, 10.7)),
    "mobilenet": ((0.8, 0.9, 0.9, 1.4), (0.89, 1.8, 3.8, 7.4)),
    "shufflenet": ((0.9, 1.0, 1.2, 1.8), (1.15, 2.1, 4.2, 8.5)),
    "vgg16": ((2.3, 3.4, 5.4, 7.4), (1.98, 2.8, 3.8, 5.2)),
    "DenseNet": ((4.1, 9.5, 22.4, 42.3), (2.58, 3.4, 5.2, 7.8)),
}


def run_times(number: int, objective: str) -> Study[PoolRun]:
    """Tables 3 and 4: mean hours of each model's trainers, by how many share the nodes."""
    name, title = f"table{number}", f"Table {number}: run times in hours, objective: {objective}"
    printed = {model: hours[number - 3] for model, hours in PRINTED_HOURS.items()}

    def tell(context: Context, found: Found) -> Iterator[Part]:
        rows: list[tuple[Cell, ...]] = []
        for model, label in MODELS.items():
            rows.append((label, "paper", *printed[model]))
            rows.append((label, "here", *(run.mean_hours(model) for run in found.values())))
        yield table(name, title, ("model", "from", *((f"Pjmax {most}", 2) for most in MOST_TRAINERS)), rows)

    ends = ("35", objective), ("5", objective)
    claims = [
        over(*ends, hours(model, label), "~", printed[model][-1] / printed[model][0])
        for model, label in MODELS.items()
    ]
    settings = {key: setting for key, setting in BY_MOST.items() if key[1] == objective}
    return study(name, title, (MOST, OBJECTIVE), settings, claims=claims, tell=tell)


# Section 5.4: models, and costs of changes

FIGURE_15 = study(
    "fig15",
    "Figure 15: models that scale differently, over the first 60 hours",
    ("model",),
    {(label,): Setting(model=model, span_s=60.0 * HOUR_S) for model, label in MODELS.items()},
    [U],
    claims=[at(("AlexNet",), U, ">=", 75.0), at(("DenseNet",), U, ">=", 83.0)],
)
FIGURE_16 = study(
    "fig16",
    "Figure 16: changes that cost more",
    ("cost", POLICY),
    {
        (f"{factor}x", setting.policy): setting._replace(cost_factor=float(factor))
        for setting in (USUAL, BASELINE)
        for factor in (1, 2, 5, 10)
    },
    [U],
    claims=[over(("10x", OPTIMISER), ("1x", OPTIMISER), U, ">=", 0.9)],
)

# Not in the paper: an open replayer of the log

DONE = RunMeasure("trainers done", lambda run: sum(one.jct_s is not None for one in run.jobs), 0)
KEPT = RunMeasure("node-seconds kept after a reclaim", lambda run: run.kept_device_s, 0)
EACH_SECOND, EACH_HALF_HOUR = "each second", "each half hour"
REPLAYED = ALL_MODELS._replace(nodes=FIRST, span_s=48.58 * HOUR_S)
REPLAYER = study(
    "replayer",
    "Beside an open replayer of the same log: 150 nodes, 48.58 hours, ten trainers of all models",
    (FORWARD, POLICY, "checkpoints"),
    {
        (told, policy, label): REPLAYED._replace(policy=policy, forward_s=time_s, checkpoint_s=each_s)
        for told, policy, time_s in (("10", OPTIMISER, 10.0), ("120", OPTIMISER, 120.0), (*EQUAL, 0.0))
        for label, each_s in ((EACH_SECOND, 1.0), (EACH_HALF_HOUR, 1_800.0))
    },
    measures=[IMAGES, BY_CHANGES, WITH_NODES, DONE, KEPT],
    claims=[
        at(("10", OPTIMISER, EACH_SECOND), IMAGES, ">=", 4.533, is_target=True),
        at((*EQUAL, EACH_SECOND), IMAGES, ">=", 4.129 * 0.98, is_target=True),
        at((*EQUAL, EACH_SECOND), BY_CHANGES, "~", 170.0),
        *(at((*EQUAL, label), KEPT, "<=", 0.0, is_target=True) for label in (EACH_SECOND, EACH_HALF_HOUR)),
    ],
)

PAPER = Paper.with_page(
    "bftrainer",
    "BFTrainer",
    "they are a week of Summit's idle nodes with throughputs and lists of trainers, as "
    "bftrainer/summit-idle-intervals-8d.csv.gz, imagenet-throughput.csv and *-jobs-*.csv",
    *(FIGURE_1, FIGURE_6, REPLAYER, FIGURE_7, FIGURE_8, FIGURE_9, FIGURE_10, FIGURE_11, FIGURE_12),
    *(FIGURE_13, FIGURE_14, run_times(3, SAMPLES), run_times(4, EFFICIENCY), FIGURE_15, FIGURE_16),
)

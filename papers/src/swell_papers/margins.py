"""What margins that are learnt keep and cost, beside margins that are the same for every estimate."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from swell.model.job import AfterRefusal
from swell.scheduler import new_core
from swell.settings import make_settings
from swell.sim.conditions import REPORT_S, SETTINGS, Conditions, set_up
from swell.sim.metrics import metrics_of
from swell.sim.simulate import simulate
from swell.sim.traces.generate import Arrivals, bursty, diurnal, poisson
from swell.sim.world import Scenario
from swell.throughput.estimate_margins import (
    KEPT_SHARE,
    NUM_BASES,
    NUM_KINDS,
    EstimateMargins,
)
from swell_papers.experiment import Claim, Context, Key, Measure, Paper, Picture, Results, Study
from swell_papers.promises import DAY_S, PHILLY, PromiseInput, inputs_of, made_up, of_log

NUM_JOBS = 300
#: A bar on deadlines met: so much less is as much.
FORGIVEN = 0.003
RANDOM, BURSTS, WAVES = "at random", "in bursts", "in waves"
#: The same margin for every estimate: what margins that are learnt are compared with.
LEARNT, FIXED_MARGINS = "learnt", (0.0, 0.1, 0.3)


class TrueSpeeds(NamedTuple):
    """How speeds differ from estimates.

    Args:
        noise_share: standard deviation of the logarithm of each job's speed at each size.
        most_share: of promises that may be broken.
    """

    name: str
    noise_share: float
    most_share: float


TRUTHS = (
    TrueSpeeds("exact", 0.0, 0.0),
    TrueSpeeds("noise .05", 0.05, 1 / 1000),
    TrueSpeeds("noise .2", 0.2, 1 / 300),
)


class MarginOutcome(NamedTuple):
    """What came of all logs under one truth and one way to choose margins."""

    num_jobs: int
    met: int  #: deadlines
    promised: int
    broken: int  #: promises

    @property
    def met_share(self) -> float:
        return self.met / max(self.num_jobs, 1)

    @property
    def broken_share(self) -> float:
        return self.broken / max(self.promised, 1)


class FixedMargin(EstimateMargins):
    """The same margin, whatever was measured."""

    def __init__(self, margin_share: float, kept_share: float) -> None:
        super().__init__(kept_share)
        self._fixed = np.full(NUM_KINDS * NUM_BASES, margin_share)
        self._fixed.setflags(write=False)

    @property
    def margins(self) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        return self._fixed


def _seen(
    name: str, told: str, file: str, nodes: int, day: int = 0, num_jobs: int = NUM_JOBS
) -> PromiseInput:
    return of_log(name, f"{told} on {nodes}x8", file, (nodes, 8), stretch=(day * DAY_S, num_jobs))


def _made(number: int, median_s: float, load: float, nodes: int, told: str) -> PromiseInput:
    title = f"{NUM_JOBS} made-up jobs {told}, median {median_s:g} s, load {load:g}, on {nodes}x8"
    arrivals = partial(_arrivals, told)
    return made_up(f"made-{number}", title, NUM_JOBS, median_s, load, nodes, arrivals, number)


def _arrivals(told: str, mean_per_s: float) -> Arrivals:
    if told == BURSTS:
        return bursty(high_per_s=1.6 * mean_per_s, low_per_s=0.4 * mean_per_s, phase_s=40 / mean_per_s)
    if told == WAVES:
        return diurnal(mean_per_s=mean_per_s, period_s=200 / mean_per_s)
    return poisson(mean_per_s)


_TRACES = "elasticflow/traces/"
LOGS: Sequence[PromiseInput] = (
    *(_seen(f"195-{nodes}x8", "195 jobs", f"{_TRACES}195job.csv", nodes, num_jobs=195) for nodes in (16, 4)),
    _seen("1000-16x8", f"the first {NUM_JOBS} of 1,000 jobs", f"{_TRACES}1000job_1500lam.csv", 16),
    *(
        _seen(f"philly-{day}", f"Philly's log, {NUM_JOBS} jobs from day {day} on,", PHILLY, nodes, day)
        for day, nodes in ((75, 8), (90, 12), (105, 32))
    ),
    *(
        _made(number, *drawn)
        for number, drawn in enumerate(
            (
                (30.0, 0.3, 8, RANDOM),
                (30.0, 0.8, 4, BURSTS),
                (120.0, 2.0, 8, RANDOM),
                (300.0, 0.7, 16, WAVES),
                (600.0, 1.0, 8, BURSTS),
                (1_200.0, 0.5, 4, WAVES),
                (1_200.0, 1.5, 8, RANDOM),
                (3_600.0, 0.8, 8, WAVES),
                (3_600.0, 0.6, 16, BURSTS),
                (7_200.0, 1.0, 8, RANDOM),
                (10_800.0, 0.3, 8, RANDOM),
                (10_800.0, 2.0, 8, BURSTS),
                (36_000.0, 0.8, 16, WAVES),
                (600.0, 0.4, 2, RANDOM),
            ),
            start=1,
        )
    ),
)


def cases(context: Context, logs: Sequence[PromiseInput] = LOGS) -> dict[Key, Callable[[], MarginOutcome]]:
    """Margins that are learnt, and fixed ones."""
    truths = context.chosen({truth.name: truth for truth in TRUTHS}, "truth")
    PAPER.check_files((name for on in logs for name in on.files), context.data)
    return {
        (truth.name, f"{margin}"): partial(outcome, logs, truth, margin, context)
        for truth in truths
        for margin in (LEARNT, *FIXED_MARGINS)
    }


def outcome(
    logs: Sequence[PromiseInput], truth: TrueSpeeds, margin: float | str, context: Context
) -> MarginOutcome:
    """Simulate all logs, and add up what comes of them."""
    counts = np.zeros(4, dtype=np.int64)
    kind = partial(FixedMargin, margin) if isinstance(margin, float) else EstimateMargins
    for scenario in (_scenario(on, truth, context.data, context.seed) for on in logs):
        core = new_core("elasticflow", make_settings(SETTINGS), kind)
        metrics, num_jobs = metrics_of(simulate(core, scenario, with_offers=False)), len(scenario.jobs)
        met = round((metrics.deadline_satisfaction or 0.0) * num_jobs)
        counts += (num_jobs, met, metrics.admitted, metrics.admitted_late)
    return MarginOutcome(*counts.tolist())


def _scenario(on: PromiseInput, truth: TrueSpeeds, data: Path, seed: int) -> Scenario:
    nodes, devices = on.cluster
    conditions = Conditions(
        nodes=nodes,
        devices_per_node=devices,
        noise=truth.noise_share,
        seed=seed,
        report_s=REPORT_S,
        refused=AfterRefusal.END,
    )
    profiles, workload = inputs_of(on, data, seed)
    return set_up(workload, profiles, conditions)


Column = Measure[MarginOutcome]
Found = Results[MarginOutcome]


def claims_of(truth: TrueSpeeds) -> Iterator[Claim[MarginOutcome]]:
    """Promises are broken as seldom as the bar says, and no fixed margin that keeps to it meets more."""

    def best(found: Found) -> float:
        fixed = [found[truth.name, f"{margin}"] for margin in FIXED_MARGINS]
        return (
            max((one.met_share for one in fixed if one.broken_share <= truth.most_share), default=0.0)
            - FORGIVEN
        )

    yield Claim(
        text=f"{truth.name}: share of promises broken",
        figure=truth.most_share,
        of=lambda found: found[truth.name, LEARNT].broken_share,
        way="<=",
        is_target=True,
    )
    yield Claim(
        text=f"{truth.name}: share of deadlines met, beside the best fixed margin with as few broken",
        figure=best,
        of=lambda found: found[truth.name, LEARNT].met_share,
        way=">=",
        is_target=True,
    )


def _truth(context: Context, found: Found) -> Iterator[str]:
    settings = ", ".join(f"{name}={value:g}" for name, value in SETTINGS.items())
    quantile = f"estimate_quantile={KEPT_SHARE:g}"
    yield f"resize cost changed; no node fails; gangs report; seed {context.seed}; {quantile}, {settings}"
    yield from (f"{on.name}: {on.title}" for on in LOGS)


PAPER = Paper.with_page(
    "margins",
    "Promises where estimates are wrong",
    "they are traces and throughput tables of ElasticFlow's public artifact, as "
    "elasticflow/traces/*.csv[.gz] and elasticflow/throughputs_A100/MODEL.csv, and Philly's log, as "
    "philly/philly.csv.gz",
    Study(
        name="margins",
        title="Learnt margins and fixed ones",
        cases=cases,
        keys=("truth", "margin"),
        measures=(
            Column("jobs", lambda one: one.num_jobs, 0),
            Column("met", lambda one: one.met_share, 4),
            Column("promised", lambda one: one.promised, 0),
            Column("broken", lambda one: one.broken, 0),
        ),
        caption="all logs together",
        pictures=(
            Picture(measures=("met",), x="margin", lines="truth", kind="lines", y_label="deadlines met"),
        ),
        claims=[claim for truth in TRUTHS for claim in claims_of(truth)],
        truth=_truth,
    ),
)

"""What margins that are learnt keep and cost, beside margins that are the same for every estimate."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from pathlib import Path
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from swell.model.errors import InvalidInput
from swell.scheduler import new_core
from swell.settings import make_settings
from swell.sim.conditions import REPORT_S, SETTINGS, Conditions, set_up
from swell.sim.item_source import RepeatedItems
from swell.sim.job import SimJob, Slowdown
from swell.sim.metrics import metrics_of
from swell.sim.simulate import Scenario, simulate
from swell.sim.traces.arrivals import Arrivals, Bursty, Diurnal, Poisson
from swell.throughput.estimate_margins import (
    KEPT_SHARE,
    NUM_BASES,
    NUM_KINDS,
    EstimateMargins,
    SizeError,
    class_of,
)
from swell_papers.experiment import Context, Paper, Study
from swell_papers.findings import Cell, Missed, Part, Values, chart, panel, table
from swell_papers.page_texts import page_texts
from swell_papers.promise_inputs import DAY_S, PHILLY, PromiseInput, inputs_of, made_up, of_log

#: Quantiles whose margins are compared with the errors that came after them.
QUANTILES = (0.5, 0.7, 0.8, 0.9, 0.95, 0.98)
#: With wrong shapes: a model's larger sizes are faster by up to this exponent, or slower by twice as much.
MOST_BEND = 0.1
#: With speeds that fall: so many jobs become so much slower, at a moment of their run that is drawn.
FALLING_SHARE, FALLEN_FACTOR = 0.1, 0.8
NUM_JOBS = 300
#: A bar on deadlines met: so much less is as much.
FORGIVEN = 0.003
#: Two-sided.
CONFIDENCE = 0.95
RANDOM, BURSTS, WAVES = "at random", "in bursts", "in waves"


@dataclass(frozen=True, kw_only=True)
class TrueSpeeds:
    """How speeds differ from estimates.

    Args:
        noise_share: standard deviation of the logarithm of each job's speed at each size.
        most_share: of promises that may be broken; None: no bar is set.
    """

    name: str
    noise_share: float
    most_share: float | None = None
    alter: Callable[[SimJob, np.random.Generator], SimJob] | None = None


def _bent(job: SimJob, generator: np.random.Generator) -> SimJob:
    """Bend the job's speed curve by an exponent that is drawn for its model.

    All jobs of one model are wrong in the same way.
    """
    of_model = np.random.default_rng(zlib.crc32(job.model.encode()))
    return replace(job, speed=job.speed.scaled(MOST_BEND * (1.0 - 3.0 * float(of_model.random()))))


def _falling(job: SimJob, generator: np.random.Generator) -> SimJob:
    falls, at_share = generator.random(2).tolist()
    if falls >= FALLING_SHARE:
        return job
    return replace(job, slowdown=Slowdown(at_share * job.num_steps, FALLEN_FACTOR))


TRUTHS = (
    TrueSpeeds(name="exact", noise_share=0.0, most_share=0.0),
    TrueSpeeds(name="noise .05", noise_share=0.05, most_share=1 / 1000),
    TrueSpeeds(name="noise .2", noise_share=0.2, most_share=1 / 300),
    TrueSpeeds(name="wrong shapes", noise_share=0.05, alter=_bent),
    TrueSpeeds(name="falling speeds", noise_share=0.05, alter=_falling),
)
#: The same margin for every estimate: what margins that are learnt are compared with.
FIXED_MARGINS = (0.0, 0.1, 0.3)


class MarginOutcome(NamedTuple):
    """What came of one log, one truth and one way to choose margins; or of several logs, in sum."""

    num_jobs: int
    met: int  #: deadlines
    promised: int
    broken: int  #: promises
    #: by quantile: estimates that were no more wrong than its margin, which is learnt from those before
    kept: tuple[int, ...] = (0,) * len(QUANTILES)
    estimates: int = 0
    num_logs: int = 1

    @property
    def met_share(self) -> float:
        return self.met / max(self.num_jobs, 1)

    @property
    def broken_share(self) -> float:
        return self.broken / max(self.promised, 1)

    @property
    def broken_bounds(self) -> tuple[float, float]:
        """Wilson's interval."""
        z, num, share = NormalDist().inv_cdf(0.5 + CONFIDENCE / 2), max(self.promised, 1), self.broken_share
        middle = (share + z * z / (2 * num)) / (1 + z * z / num)
        half = z / (1 + z * z / num) * math.sqrt(share * (1 - share) / num + z * z / (4 * num * num))
        return max(middle - half, 0.0), middle + half


def pooled(outcomes: Sequence[MarginOutcome]) -> MarginOutcome:
    """Their sum."""
    kept = tuple(map(sum, zip(*(one.kept for one in outcomes), strict=True)))
    sums = {
        name: sum(getattr(one, name) for one in outcomes) for name in MarginOutcome._fields if name != "kept"
    }
    return MarginOutcome(kept=kept, **sums)


class FixedMargin(EstimateMargins):
    """The same margin, whatever was measured."""

    def __init__(self, margin_share: float, kept_share: float) -> None:
        super().__init__(kept_share)
        self._fixed = np.full(NUM_KINDS * NUM_BASES, margin_share)
        self._fixed.setflags(write=False)

    @property
    def margins(self) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        return self._fixed


@dataclass
class Calibration:
    """Counts the errors that each quantile's margin covered when they came."""

    kept: list[int] = field(default_factory=lambda: [0] * len(QUANTILES))
    num: int = 0
    pools: list[EstimateMargins] = field(
        default_factory=lambda: [EstimateMargins(share) for share in QUANTILES]
    )

    def note(self, error: SizeError) -> None:
        """Count an estimate's error at each quantile whose margin covers it, and learn from it.

        The first error at a size counts. A later one of the same size takes its place in what is learnt.
        """
        first = self.pools[0]
        is_new = first.error_of(error.job_id, error.num_workers, error.num_hosts, error.basis) is None
        if is_new:
            self.num += 1
            wrong_by = error.error - first.carried_share * error.others
            for place, pool in enumerate(self.pools):
                margin_share = float(pool.margins[class_of(error.kind, error.basis)])
                self.kept[place] += wrong_by <= math.log1p(margin_share) + 1e-9
        for pool in self.pools:
            pool.note(error)


class Watched(EstimateMargins):
    """Margins that are learnt, and how well they would have been at other quantiles."""

    def __init__(self, calibration: Calibration, kept_share: float) -> None:
        super().__init__(kept_share)
        self._calibration = calibration

    def note(self, error: SizeError) -> None:
        self._calibration.note(error)
        super().note(error)


def _seen(name: str, told: str, file: str, nodes: int, day: int, num_jobs: int) -> PromiseInput:
    return of_log(name, f"{told} on {nodes}x8", file, (nodes, 8), stretch=(day * DAY_S, num_jobs))


def _philly(day: int, nodes: int) -> PromiseInput:
    told = f"Philly's log, {NUM_JOBS} jobs from day {day} on,"
    return _seen(f"philly-{day}", told, PHILLY, nodes, day, NUM_JOBS)


def _made(number: int, median_s: float, load: float, nodes: int, told: str) -> PromiseInput:
    title = f"{NUM_JOBS} made-up jobs {told}, median {median_s:g} s, load {load:g}, on {nodes}x8"
    arrivals = partial(_arrivals, told)
    return made_up(f"made-{number}", title, NUM_JOBS, median_s, load, nodes, arrivals, number)


def _arrivals(told: str, mean_per_s: float) -> Arrivals:
    if told == BURSTS:
        return Bursty(high_per_s=1.6 * mean_per_s, low_per_s=0.4 * mean_per_s, phase_s=40 / mean_per_s)
    if told == WAVES:
        return Diurnal(mean_per_s=mean_per_s, period_s=200 / mean_per_s)
    return Poisson(mean_per_s)


_TRACES = "elasticflow/traces/"
LOGS: Sequence[PromiseInput] = (
    _seen("195-16x8", "195 jobs", f"{_TRACES}195job.csv", 16, 0, 195),
    _seen("195-4x8", "195 jobs", f"{_TRACES}195job.csv", 4, 0, 195),
    _seen(
        "1000-16x8", f"the first {NUM_JOBS} of 1,000 jobs", f"{_TRACES}1000job_1500lam.csv", 16, 0, NUM_JOBS
    ),
    _philly(75, 8),
    _philly(90, 12),
    _philly(105, 32),
    _made(1, 30.0, 0.3, 8, RANDOM),
    _made(2, 30.0, 0.8, 4, BURSTS),
    _made(3, 120.0, 2.0, 8, RANDOM),
    _made(4, 300.0, 0.7, 16, WAVES),
    _made(5, 600.0, 1.0, 8, BURSTS),
    _made(6, 1_200.0, 0.5, 4, WAVES),
    _made(7, 1_200.0, 1.5, 8, RANDOM),
    _made(8, 3_600.0, 0.8, 8, WAVES),
    _made(9, 3_600.0, 0.6, 16, BURSTS),
    _made(10, 7_200.0, 1.0, 8, RANDOM),
    _made(11, 10_800.0, 0.3, 8, RANDOM),
    _made(12, 10_800.0, 2.0, 8, BURSTS),
    _made(13, 36_000.0, 0.8, 16, WAVES),
    _made(14, 600.0, 0.4, 2, RANDOM),
)


#: By the names of truth, margin (None: learnt) and log.
Key = tuple[str, float | None, str]
Found = Mapping[Key, MarginOutcome]


def chosen_truths(context: Context) -> list[TrueSpeeds]:
    """Raises InvalidInput: none is called so."""
    truths = [one for one in TRUTHS if not context.only or one.name.startswith(context.only)]
    if not truths:
        known, named = ", ".join(truth.name for truth in TRUTHS), ", ".join(context.only)
        raise InvalidInput(f"--only names {named!r}, and no truth begins so; there are {known}")
    return truths


def cases(context: Context, logs: Sequence[PromiseInput] = LOGS) -> dict[Key, Callable[[], MarginOutcome]]:
    """Margins that are learnt, and fixed ones where a bar is set that both can be held to."""
    truths = chosen_truths(context)
    PAPER.check_files((name for on in logs for name in on.files), context.data)
    ways = [(truth, None) for truth in truths]
    barred = [truth for truth in truths if truth.most_share is not None]
    return {
        (truth.name, margin, on.name): partial(outcome, on, truth, margin, context.data, context.seed)
        for truth, margin in (*ways, *product(barred, FIXED_MARGINS))
        for on in logs
    }


def outcome(
    on: PromiseInput, truth: TrueSpeeds, margin: float | None, data: Path, seed: int
) -> MarginOutcome:
    """Simulate."""
    scenario, calibration = _scenario(on, truth, data, seed), Calibration()
    watched = partial(Watched, calibration) if margin is None else partial(FixedMargin, margin)
    core = new_core("elasticflow", make_settings(SETTINGS), watched)
    metrics, num_jobs = metrics_of(simulate(core, scenario, with_offers=False)), len(scenario.jobs)
    return MarginOutcome(
        num_jobs=num_jobs,
        met=round((metrics.deadline_satisfaction or 0.0) * num_jobs),
        promised=metrics.admitted,
        broken=metrics.admitted_late,
        kept=tuple(calibration.kept),
        estimates=calibration.num,
    )


def _scenario(on: PromiseInput, truth: TrueSpeeds, data: Path, seed: int) -> Scenario:
    nodes, devices = on.cluster
    conditions = Conditions(
        nodes=nodes, devices_per_node=devices, noise_share=truth.noise_share, seed=seed, report_s=REPORT_S
    )
    profiles, workload = inputs_of(on, data, seed)
    scenario = set_up(workload, profiles, conditions)
    if (alter := truth.alter) is None:
        return scenario
    jobs = scenario.jobs

    def altered() -> Iterator[SimJob]:
        for index, job in enumerate(jobs):
            yield alter(job, np.random.default_rng([seed, index, zlib.crc32(truth.name.encode())]))

    return replace(scenario, jobs=RepeatedItems(len(jobs), altered))


# What is told of it


def told(margin: float | None) -> str:
    return "learnt" if margin is None else f"{margin:g}"


def tell(context: Context, found: Found) -> Iterator[Part]:
    """All logs together, by truth and margin."""
    by_way: dict[tuple[str, float | None], list[MarginOutcome]] = {}
    for (truth, margin, _), one in found.items():
        by_way.setdefault((truth, margin), []).append(one)
    pools: dict[str, dict[float | None, MarginOutcome]] = {}
    for (truth, margin), some in by_way.items():
        pools.setdefault(truth, {})[margin] = pooled(some)
    rows: list[tuple[Cell, ...]] = []
    for truth, by_margin in pools.items():
        for margin, one in by_margin.items():
            bounds = (1000 * share for share in (one.broken_share, *one.broken_bounds))
            row = (truth, told(margin), one.num_logs, one.num_jobs, one.met_share, one.promised, one.broken)
            rows.append((*row, *bounds))
    names = ("truth", "margin", "logs", "jobs", "met", "promised", "broken")
    yield table(
        "margins",
        "deadlines met, and promises broken, over all logs together; of 1,000 promises, with bounds "
        f"of {CONFIDENCE:.0%} confidence",
        (*((name, 4) for name in names), *((name, 2) for name in ("broken of 1,000", "from", "to"))),
        rows,
    )
    lines: dict[str, Values] = {"as promised": QUANTILES}
    lines |= {
        truth: [num / learnt.estimates for num in learnt.kept]
        for truth, by_margin in pools.items()
        if (learnt := by_margin.get(None)) is not None and learnt.estimates
    }
    title = "Estimates that were no more wrong than their margin, by the quantile that it is"
    x = ("estimate_quantile", QUANTILES)
    yield chart(
        "calibration", title, "lines", x, "share of estimates that came later", [panel("all logs", lines)]
    )
    ways = (None, *FIXED_MARGINS)
    met = {truth: [by[way].met_share if way in by else None for way in ways] for truth, by in pools.items()}
    x_ways = ("margin", map(told, ways))
    yield chart(
        "price", "Deadlines met by margin", "lines", x_ways, "share of deadlines", [panel("met", met)]
    )
    for one_truth in chosen_truths(context):
        yield from map(Missed, missed(one_truth, pools.get(one_truth.name, {})))


def missed(truth: TrueSpeeds, found: Mapping[float | None, MarginOutcome]) -> Iterator[str]:
    """More promises broken than the bar allows; or fewer deadlines met than by a margin that keeps to it."""
    learnt = found.get(None)
    if learnt is None or truth.most_share is None:
        return
    if learnt.broken_share > truth.most_share:
        yield (
            f"{truth.name}: {learnt.broken} of {learnt.promised:,} promises broken, "
            f"more than {truth.most_share:.4f}"
        )
    for margin, fixed in found.items():
        if margin is None or fixed.broken_share > truth.most_share:
            continue
        if learnt.met_share < fixed.met_share - FORGIVEN:
            yield (
                f"{truth.name}: {learnt.met_share:.4f} of deadlines met, and {fixed.met_share:.4f} with a "
                f"margin of {told(margin)}"
            )


def _truth(context: Context, found: Found) -> Iterator[str]:
    settings = ", ".join(f"{name}={value:g}" for name, value in SETTINGS.items())
    quantile = f"estimate_quantile={KEPT_SHARE:g}"
    yield f"resize cost changed; no node fails; gangs report; seed {context.seed}; {quantile}, {settings}"
    yield from (f"{on.name}: {on.title}" for on in LOGS)


PAPER = Paper(
    name="margins",
    title="Promises where estimates are wrong",
    inputs="they are traces and throughput tables of ElasticFlow's public artifact, as "
    "elasticflow/traces/*.csv[.gz] and elasticflow/throughputs_A100/MODEL.csv, and Philly's log, as "
    "philly/philly.csv.gz",
    introduction=page_texts("margins").introduction,
    experiments=(
        Study(
            name="margins",
            title="Learnt margins and fixed ones",
            cases=cases,
            tell=tell,
            truth=_truth,
        ),
    ),
)

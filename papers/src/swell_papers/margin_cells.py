"""One log, one way in which the truth differs from estimates, one way to choose margins: what came of it."""

from __future__ import annotations

import math
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import msgspec
import numpy as np

from swell.scheduler import new_core
from swell.sim.conditions import REPORT_S, Conditions, set_up
from swell.sim.item_source import RepeatedItems
from swell.sim.job import SimJob, Slowdown
from swell.sim.metrics import metrics_of
from swell.sim.simulate import Scenario, simulate
from swell.sim.traces.arrivals import Arrivals, Bursty, Diurnal, Poisson
from swell.throughput.estimate_margins import (
    NUM_BASES,
    NUM_KINDS,
    EstimateMargins,
    SizeError,
    class_of,
)
from swell_papers.log_cases import head_settings
from swell_papers.promise_cells import CellFolder, inputs_of, recall, remember
from swell_papers.promise_inputs import DAY_S, PHILLY, PromiseInput, made_up, of_log

#: Quantiles whose margins are compared with the errors that came after them.
QUANTILES = (0.5, 0.7, 0.8, 0.9, 0.95, 0.98)
#: With wrong shapes: a model's larger sizes are faster by up to this exponent, or slower by twice as much.
MOST_BEND = 0.1
#: With speeds that fall: so many jobs become so much slower, at a moment of their run that is drawn.
FALLING_SHARE, FALLEN_FACTOR = 0.1, 0.8
NUM_JOBS = 300


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


class MarginCell(msgspec.Struct, frozen=True, kw_only=True):
    input: str
    truth: str
    margin: float | None  #: of every estimate; None: learnt


class MarginOutcome(msgspec.Struct, frozen=True, kw_only=True):
    num_jobs: int
    met: int  #: deadlines
    promised: int
    broken: int  #: promises
    #: by quantile: estimates that were no more wrong than its margin, which is learnt from those before
    kept: tuple[int, ...] = (0,) * len(QUANTILES)
    estimates: int = 0
    cpu_s: float


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


class MarginCells(CellFolder):
    """Runs cells, or remembers them for as long as neither program nor input changes."""

    def known(self, cell: MarginCell, on: PromiseInput) -> MarginOutcome | None:
        return recall(self.file(cell, on), MarginOutcome)

    def run(self, cell: MarginCell, on: PromiseInput) -> MarginOutcome:
        """Raises InvalidInput, OSError."""
        begun_s, truth = time.process_time(), next(one for one in TRUTHS if one.name == cell.truth)
        scenario, calibration = self._scenario(truth, on), Calibration()
        watched = partial(Watched, calibration) if cell.margin is None else partial(FixedMargin, cell.margin)
        metrics = metrics_of(
            simulate(new_core("elasticflow", head_settings(), watched), scenario, with_offers=False)
        )
        num_jobs = len(scenario.jobs)
        outcome = MarginOutcome(
            num_jobs=num_jobs,
            met=round((metrics.deadline_satisfaction or 0.0) * num_jobs),
            promised=metrics.admitted,
            broken=metrics.admitted_late,
            kept=tuple(calibration.kept),
            estimates=calibration.num,
            cpu_s=time.process_time() - begun_s,
        )
        remember(self.file(cell, on), outcome)
        return outcome

    def _scenario(self, truth: TrueSpeeds, on: PromiseInput) -> Scenario:
        nodes, devices = on.cluster
        conditions = Conditions(
            nodes=nodes,
            devices_per_node=devices,
            noise_share=truth.noise_share,
            seed=self.seed,
            report_s=REPORT_S,
        )
        profiles, workload = inputs_of(on, self.data, self.seed)
        scenario = set_up(workload, profiles, conditions)
        if (alter := truth.alter) is None:
            return scenario
        jobs, seed = scenario.jobs, self.seed

        def altered() -> Iterator[SimJob]:
            for index, job in enumerate(jobs):
                yield alter(job, np.random.default_rng([seed, index, zlib.crc32(truth.name.encode())]))

        return replace(scenario, jobs=RepeatedItems(len(jobs), altered))


RANDOM, BURSTS, WAVES = "at random", "in bursts", "in waves"


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

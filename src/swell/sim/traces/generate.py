"""Made-up traces: arrivals by Poisson processes whose rate may change, devices and durations drawn."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import cycle, repeat
from types import MappingProxyType

import msgspec
import numpy as np

from swell.arrays import FloatArray, each
from swell.sim.traces.entry import JobKind, Trace, TraceError, TraceJob

#: Chosen, not measured: most jobs small, as in every published log.
DEVICE_WEIGHTS = {1: 70.0, 2: 10.0, 4: 8.0, 8: 8.0, 16: 4.0}


DAY_S = 86400.0
#: A day's rate changes in so many steps.
STEPS_A_PERIOD = 288
#: Where a rate never changes, its segments are as long as so many jobs take.
MANY_JOBS = 1e9


class Demand(msgspec.Struct, frozen=True, kw_only=True):
    """What jobs ask for: devices by weight, durations from a log-normal distribution."""

    device_weights: dict[int, float] = msgspec.field(default_factory=DEVICE_WEIGHTS.copy)
    median_s: float = 3600.0
    spread: float = 1.5  #: standard deviation of the logarithm; 0: all as long as the median

    def __post_init__(self) -> None:
        weights = self.device_weights
        if not weights or min(weights) < 1 or min(weights.values()) < 0 or sum(weights.values()) <= 0:
            raise TraceError("devices must be NUMBER:WEIGHT with numbers >= 1 and weights >= 0, not all 0")
        if not 0.0 < self.median_s < math.inf or not 0.0 <= self.spread < math.inf:
            raise TraceError("durations need a median > 0 s and a spread >= 0")


def generate(
    arrivals: Arrivals,
    num_jobs: int,
    demand: Demand | None = None,
    seed: int = 0,
    kinds: Mapping[JobKind, float] = MappingProxyType({}),
) -> Trace:
    """A trace of so many jobs, without models and deadlines; the same arguments give the same trace.

    Args:
        kinds: weights of kinds of jobs; empty: none is told. Kinds change nothing else.

    Raises:
        TraceError: an argument cannot be.
    """
    if num_jobs < 1 or seed < 0:
        raise TraceError("a trace needs at least 1 job, and a seed >= 0")
    demand = demand or Demand()
    generator = np.random.default_rng(seed)
    submit_s = arrival_times(arrivals, num_jobs, generator)
    sizes = np.array(list(demand.device_weights), dtype=np.int64)
    weights = np.array(list(demand.device_weights.values()))
    devices = generator.choice(sizes, size=num_jobs, p=weights / weights.sum())
    duration_s = demand.median_s * each(math.exp, demand.spread * generator.standard_normal(num_jobs))
    width = len(str(num_jobs))
    drawn: Iterable[JobKind | None] = repeat(None, num_jobs)
    if kinds:
        shares = np.array(list(kinds.values())) / sum(kinds.values())
        drawn = [[*kinds][at] for at in generator.choice(len(shares), size=num_jobs, p=shares)]
    rows = zip((submit_s - submit_s[0]).tolist(), devices.tolist(), duration_s.tolist(), drawn, strict=True)
    return Trace(
        jobs=tuple(
            TraceJob(
                id=f"job-{at:0{width}d}",
                submit_s=round(job_submit_s, 3),
                num_devices=num_devices,
                duration_s=max(1.0, round(job_duration_s, 3)),
                job_kind=kind,
            )
            for at, (job_submit_s, num_devices, job_duration_s, kind) in enumerate(rows, start=1)
        ),
        format="plain",
        source="generated",
        notes=(f"generated with seed {seed}",),
    )


class Arrivals(msgspec.Struct, frozen=True):
    """Arrivals of a Poisson process whose rates take turns, each for as long as the others."""

    rates_per_s: tuple[float, ...]
    phase_s: float

    def __post_init__(self) -> None:
        if not (min(self.rates_per_s) >= 0.0 and 0.0 < max(self.rates_per_s) < math.inf):
            raise TraceError(
                "the rate of arrivals must be more than 0 jobs an hour at some time, and never below"
            )
        if not 0.0 < self.phase_s < math.inf:
            raise TraceError("a phase of arrivals must last longer than 0 s")


def poisson(rate_per_s: float) -> Arrivals:
    """The same rate always."""
    return Arrivals((rate_per_s,), MANY_JOBS / (rate_per_s or 1.0))


def bursty(high_per_s: float, low_per_s: float, phase_s: float = 3600.0) -> Arrivals:
    """High and low rates in turn, the high one first.

    References: Saxena et al., section IV-A: "alternates the mean of the Poisson distribution between high and
        low every 60 or 120 mins", the low rate being a quarter of the high one.
    """
    return Arrivals((high_per_s, low_per_s), phase_s)


def diurnal(mean_per_s: float, swing_share: float = 0.8, period_s: float = DAY_S) -> Arrivals:
    """A rate that swings around its mean once a period: `mean (1 + swing sin(2 pi t / period))`.

    It changes 288 times a period, every five minutes of a day; at 0 it is the mean, and rising.
    """
    # The mean of the sine over each step, so that the rate's mean is exact.
    middles = (math.sin(2 * math.pi * (step + 0.5) / STEPS_A_PERIOD) for step in range(STEPS_A_PERIOD))
    rates = tuple(mean_per_s * (1.0 + swing_share * middle) for middle in middles)
    return Arrivals(rates, period_s / STEPS_A_PERIOD)


def arrival_times(arrivals: Arrivals, num_jobs: int, generator: np.random.Generator) -> FloatArray:
    """(num_jobs,) seconds, ascending.

    Arrivals of a Poisson process of rate 1 are carried over to the clock on which the expected number of
    arrivals grows at the rate wanted.
    """
    due = np.cumsum(generator.exponential(size=num_jobs))
    expected, clock_s = [0.0], [0.0]
    for rate_per_s in cycle(arrivals.rates_per_s):
        if expected[-1] >= due[-1]:
            break
        expected.append(expected[-1] + arrivals.phase_s * rate_per_s)
        clock_s.append(clock_s[-1] + arrivals.phase_s)
    # Where the rate is 0 nothing is expected, and interpolation takes the end of that time.
    times_s: FloatArray = np.interp(due, expected, clock_s)
    return times_s

"""Made-up traces: arrivals by Poisson processes whose rate may change, devices and durations drawn."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import cycle, repeat

import msgspec
import numpy as np

from swell.arrays import FloatArray, each
from swell.sim.traces.entry import Trace, TraceError, TraceJob

#: Chosen, not measured: most jobs small, as in every published log.
DEVICE_WEIGHTS = {1: 70.0, 2: 10.0, 4: 8.0, 8: 8.0, 16: 4.0}


DAY_S = 86400.0
#: A day's rate changes in so many steps.
STEPS_A_PERIOD = 288
#: Where a rate never changes, its segments are as long as so many jobs take.
MANY_JOBS = 1e9
#: (seconds, jobs a second) for as long as the rate stays; without end.
Segments = Iterator[tuple[float, float]]


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


def generate(arrivals: Arrivals, num_jobs: int, demand: Demand | None = None, seed: int = 0) -> Trace:
    """A trace of so many jobs, without models and deadlines; the same arguments give the same trace.

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
    rows = zip((submit_s - submit_s[0]).tolist(), devices.tolist(), duration_s.tolist(), strict=True)
    return Trace(
        jobs=tuple(
            TraceJob(
                id=f"job-{at:0{width}d}",
                submit_s=round(job_submit_s, 3),
                num_devices=num_devices,
                duration_s=max(1.0, round(job_duration_s, 3)),
            )
            for at, (job_submit_s, num_devices, job_duration_s) in enumerate(rows, start=1)
        ),
        format="plain",
        source="generated",
        notes=(f"generated with seed {seed}",),
    )


class Poisson(msgspec.Struct, frozen=True):
    """The same rate always."""

    rate_per_s: float

    def __post_init__(self) -> None:
        _check_rate(self.rate_per_s)

    def segments(self) -> Segments:
        return repeat((MANY_JOBS / self.rate_per_s, self.rate_per_s))


class Bursty(msgspec.Struct, frozen=True, kw_only=True):
    """High and low rates in turn, the high one first, each for `phase_s`.

    References: Saxena et al., section IV-A: "alternates the mean of the Poisson distribution between high and
        low every 60 or 120 mins", the low rate being a quarter of the high one.
    """

    high_per_s: float
    low_per_s: float
    phase_s: float = 3600.0

    def __post_init__(self) -> None:
        _check_rate(self.high_per_s)
        if not 0.0 <= self.low_per_s <= self.high_per_s:
            raise TraceError("the low rate of bursty arrivals must be between 0 and the high one")
        if not 0.0 < self.phase_s < math.inf:
            raise TraceError("a phase of bursty arrivals must last longer than 0 s")

    def segments(self) -> Segments:
        for rate in cycle((self.high_per_s, self.low_per_s)):
            yield self.phase_s, rate


class Diurnal(msgspec.Struct, frozen=True, kw_only=True):
    """A rate that swings around its mean once a period: `mean (1 + swing sin(2 pi t / period))`.

    It changes 288 times a period, every five minutes of a day; at 0 it is the mean, and rising.
    """

    mean_per_s: float
    swing_share: float = 0.8
    period_s: float = DAY_S

    def __post_init__(self) -> None:
        _check_rate(self.mean_per_s)
        if not 0.0 <= self.swing_share <= 1.0:
            raise TraceError("the swing of diurnal arrivals must be within 0 and 1")
        if not 0.0 < self.period_s < math.inf:
            raise TraceError("the period of diurnal arrivals must be longer than 0 s")

    def segments(self) -> Segments:
        step_s = self.period_s / STEPS_A_PERIOD
        for step in cycle(range(STEPS_A_PERIOD)):
            # The mean of the sine over the step, so that the rate's mean is exact.
            middle = math.sin(2 * math.pi * (step + 0.5) / STEPS_A_PERIOD)
            yield step_s, self.mean_per_s * (1.0 + self.swing_share * middle)


#: A rate over time.
Arrivals = Poisson | Bursty | Diurnal


def _check_rate(rate_per_s: float) -> None:
    if not 0.0 < rate_per_s < math.inf:
        raise TraceError("the rate of arrivals must be more than 0 jobs an hour")


def arrival_times(arrivals: Arrivals, num_jobs: int, generator: np.random.Generator) -> FloatArray:
    """(num_jobs,) seconds, ascending.

    Arrivals of a Poisson process of rate 1 are carried over to the clock on which the expected number of
    arrivals grows at the rate wanted.
    """
    due = np.cumsum(generator.exponential(size=num_jobs))
    expected, clock_s = [0.0], [0.0]
    for length_s, rate_per_s in arrivals.segments():
        if expected[-1] >= due[-1]:
            break
        expected.append(expected[-1] + length_s * rate_per_s)
        clock_s.append(clock_s[-1] + length_s)
    # Where the rate is 0 nothing is expected, and interpolation takes the end of that time.
    times_s: FloatArray = np.interp(due, expected, clock_s)
    return times_s

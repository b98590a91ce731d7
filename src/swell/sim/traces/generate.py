"""Made-up traces: arrivals by a law, devices and durations drawn."""

from __future__ import annotations

import math

import msgspec
import numpy as np

from swell.arrays import each
from swell.sim.traces.arrivals import Arrivals, arrival_times
from swell.sim.traces.entry import Trace, TraceError, TraceJob

#: Chosen, not measured: most jobs small, as in every published log.
DEVICE_WEIGHTS = {1: 70.0, 2: 10.0, 4: 8.0, 8: 8.0, 16: 4.0}


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

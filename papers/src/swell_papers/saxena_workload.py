"""Jobs of the evaluation of Saxena et al.: categories of Table I that arrive by a Poisson process."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from swell.sim.profiles.built_in import CATEGORIES, FULL_STEP_S, Category
from swell.sim.traces.entry import Workload, WorkloadJob
from swell.sim.traces.generate import Arrivals, arrival_times, bursty, poisson

MINUTE_S = 60.0
#: Section IV-A: how long a job of a benchmark of one category takes on one device.
HALF_AN_HOUR = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """How jobs arrive. A load of 1 is what keeps all devices busy with jobs on one device each.

    The paper's high rate is `k_max` times that of one device, which loads 40 devices to a quarter: few jobs
    would be dropped or wait. So loads are free parameters here.
    """

    name: str
    minutes: float
    high: float
    low: float = 0.0
    phase_minutes: float | None = None  #: of high and of low in turn; None: high all the time

    def arrivals(self, num_devices: int, mean_s: float) -> Arrivals:
        """Args: `mean_s` is how long a job takes on one device on average."""
        high_per_s = self.high * num_devices / mean_s
        if self.phase_minutes is None:
            return poisson(high_per_s)
        low_per_s = self.low * num_devices / mean_s
        return bursty(high_per_s=high_per_s, low_per_s=low_per_s, phase_s=MINUTE_S * self.phase_minutes)

    @property
    def load(self) -> float:
        """Mean."""
        return self.high if self.phase_minutes is None else (self.high + self.low) / 2.0


def workload(
    pattern: Pattern, num_devices: int, categories: tuple[int, ...], seed: int, minutes: float | None = None
) -> Workload:
    """Jobs of these categories (from 0), each as likely as the others.

    Args:
        minutes: that each takes on one device; None: those of its category (section IV-G).
    """
    generator = np.random.default_rng([seed, num_devices, *categories])
    chosen = [CATEGORIES[at] for at in categories]
    lengths_s = [MINUTE_S * (job.minutes if minutes is None else minutes) for job in chosen]
    end_s, mean_s = MINUTE_S * pattern.minutes, float(np.mean(lengths_s))
    expected = pattern.load * num_devices * end_s / mean_s
    times_s = arrival_times(pattern.arrivals(num_devices, mean_s), round(1.5 * expected) + 100, generator)
    times_s = times_s[times_s < end_s]
    drawn = generator.integers(len(chosen), size=len(times_s)).tolist()
    pairs = enumerate(zip(times_s.tolist(), drawn, strict=True))
    return Workload(
        jobs=tuple(_job(at, submit_s, chosen[kind], lengths_s[kind]) for at, (submit_s, kind) in pairs),
        dropped={},
        filled=(),
        profiles="saxena",
        source=f"generated: {pattern.name}, {pattern.minutes:g} minutes, seed {seed}",
    )


def _job(at: int, submit_s: float, kind: Category, length_s: float) -> WorkloadJob:
    return WorkloadJob(
        id=f"job-{at:05d}",
        submit_s=submit_s,
        model=kind.name,
        global_batch=kind.local_batch,
        num_steps=round(length_s / FULL_STEP_S),
        is_best_effort=True,
        num_devices=1,
        duration_s=length_s,
        is_elastic=kind.is_elastic,
    )

"""Jobs with every statistic that Hu et al. give of theirs, which are not public."""

from __future__ import annotations

import msgspec
import numpy as np

from swell.arrays import FloatArray
from swell.sim.profiles.built_in import hu
from swell.sim.traces.entry import Trace, TraceJob, Workload, WorkloadJob
from swell.sim.traces.fill import FillRules, fill

MINUTE_S = 60.0
#: Section 5.1: jobs submitted from January 24, 2021 14:25:41 to January 26, 2021 16:07:19.
NUM_JOBS, SPAN_S = 1252, 178_898.0
#: Section 5.1: jobs that trained for 5 minutes or more; mean training times of these and of all.
NUM_LONG, LEAST_LONG_MIN = 447, 5.0
MEAN_LONG_MIN, MEAN_MIN = 232.6, 84.3
#: The mean of the others follows.
MEAN_SHORT_MIN = (NUM_JOBS * MEAN_MIN - NUM_LONG * MEAN_LONG_MIN) / (NUM_JOBS - NUM_LONG)
#: Each move makes the error of a mean a small share of what it was.
NUM_MOVES = 5
#: Section 4.3: sizes are up to 16 nodes.
MOST_NODES = 16
#: Assumed, as the paper does not say it: the standard deviation of the logarithm of what a long job trains
#: beyond 5 minutes, and the nodes on which the times were measured.
SPREAD, MEASURED_ON = 1.2, 2


class Disturbed(msgspec.Struct, frozen=True, kw_only=True):
    """Section 5.4: what the scheduler is told is wrong, or does not come true."""

    eta_share: float = 0.0  #: a job states its work with an error of up to this share
    buggy_share: float = 0.0  #: of jobs that fail within 5 minutes of training
    cancelled_share: float = 0.0  #: of jobs that their users give up at any time


def workload(seed: int, *, is_all: bool = False, disturbed: Disturbed | None = None) -> Workload:
    """The same seed gives the same jobs, disturbed or not.

    Args:
        is_all: all 1,252 jobs, of unequal lengths ("heterogeneous-ETA", section 5.3); otherwise the 447.
    """
    disturbed = disturbed or Disturbed()
    submit_s, train_s = _drawn(seed)
    jobs = tuple(
        TraceJob(
            id=f"job-{at:04d}",
            submit_s=float(submit_s[at]),
            num_devices=MEASURED_ON,
            duration_s=float(train_s[at]),
            global_batch=MOST_NODES,
        )
        for at in range(NUM_JOBS)
        if is_all or train_s[at] >= LEAST_LONG_MIN * MINUTE_S
    )
    rules = FillRules(
        seed=seed,
        deadlines="none",
        buggy_share=disturbed.buggy_share,
        cancelled_share=disturbed.cancelled_share,
    )
    filled = fill(Trace(jobs=jobs, format="generated", source=f"generated, seed {seed}"), hu(), rules)
    factor = 1.0 + disturbed.eta_share * np.random.default_rng([seed, 1]).uniform(-1.0, 1.0, NUM_JOBS)
    stated = (_stating(job, one) for job, one in zip(filled.jobs, factor.tolist(), strict=False))
    return msgspec.structs.replace(filled, jobs=tuple(stated))


def _stating(job: WorkloadJob, factor: float) -> WorkloadJob:
    stated = max(1, round(factor * job.num_steps))
    return job if stated == job.num_steps else msgspec.structs.replace(job, stated_steps=stated)


def _drawn(seed: int) -> tuple[FloatArray, FloatArray]:
    """(N,) submissions and training times.

    Arrivals are uniform over the span, the first and the last at its ends. Means are exact.
    """
    generator = np.random.default_rng([seed, 0])
    submit_s = np.sort(generator.uniform(0.0, SPAN_S, NUM_JOBS))
    submit_s[0], submit_s[-1] = 0.0, SPAN_S
    beyond = np.exp(SPREAD * generator.standard_normal(NUM_LONG))
    long_min = LEAST_LONG_MIN + beyond * (MEAN_LONG_MIN - LEAST_LONG_MIN) / beyond.mean()
    short_min = _short_min(generator, NUM_JOBS - NUM_LONG)
    train_s = generator.permutation(np.concatenate([long_min, short_min])) * MINUTE_S
    return submit_s, train_s


def _short_min(generator: np.random.Generator, num: int) -> FloatArray:
    """Times below 5 minutes: a beta distribution of the mean that follows, moved until it is exact."""
    mean = MEAN_SHORT_MIN / LEAST_LONG_MIN
    shares = generator.beta(1.0, 1.0 / mean - 1.0, num)
    for _ in range(NUM_MOVES):
        spread = shares * (1.0 - shares)  # so that shares stay within 0 and 1
        shares = shares + (mean - shares.mean()) * spread / spread.mean()
    short_min: FloatArray = LEAST_LONG_MIN * shares
    return short_min

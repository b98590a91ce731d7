"""A node whose cores are divided by weights, fluid and without costs, and jobs that learn on it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from tests.policies.snapshots import best_effort, snapshot

from swell.arrays import FloatArray
from swell.core.last_plan import PolicyState
from swell.policies.policy import Policy

Curve = Callable[[FloatArray], FloatArray]
#: More decisions than any run of a few jobs needs.
MOST_TURNS = 20_000


@dataclass(frozen=True)
class Learner:
    """A job of one process, which uses one core at most; work is CPU seconds."""

    id: str
    arrives_s: float
    work_s: float
    curve: Curve  #: of the part of its work that is done, (n,) -> (n,)
    scale: float = 1.0  #: of the loss
    noise: float = 0.0  #: standard deviation, as a part of the drop
    is_seen: bool = True

    @property
    def usable_s(self) -> float:
        """CPU time until 95 % of the drop is done; NaN: there is none."""
        at = np.linspace(0.0, 1.0, 2001)
        value = self.curve(at)
        drop = value[0] - value[-1]
        return (
            math.nan if drop <= 0.0 else self.work_s * float(at[np.argmax(value <= value[0] - 0.95 * drop)])
        )

    def value(self, done_s: float, draw: float) -> float:
        if not self.is_seen:
            return math.nan
        first, last, now = self.curve(np.array([0.0, 1.0, done_s / self.work_s]))
        return self.scale * float(now + self.noise * draw * (abs(first - last) or 1.0))


@dataclass(frozen=True)
class Outcome:
    """Seconds, by job in the order given."""

    took_s: FloatArray
    usable_after_s: FloatArray  #: NaN: never
    makespan_s: float
    num_changes: int  #: of shares

    def over(self, other: Outcome) -> tuple[float, float, float, float]:
        """Ratios: mean completion time, that of the worst job, makespan, mean time to 95 % of the drop."""
        return (
            float(self.took_s.mean() / other.took_s.mean()),
            float((self.took_s / other.took_s).max()),
            self.makespan_s / other.makespan_s,
            float(np.nanmean(self.usable_after_s) / np.nanmean(other.usable_after_s)),
        )


def divide(weight: FloatArray, cores: float) -> FloatArray:
    """(J,) cores of each job, none more than one, by weight, work conserving."""
    given, is_open = np.zeros(len(weight)), np.ones(len(weight), dtype=bool)
    while is_open.any() and cores > 1e-12:
        part = cores * weight / weight[is_open].sum()
        is_full = is_open & (part >= 1.0)
        if not is_full.any():
            given[is_open] = part[is_open]
            break
        given[is_full], is_open[is_full] = 1.0, False
        cores -= float(is_full.sum())
    return given


def share_cores(policy: Policy | None, jobs: Sequence[Learner], cores: float = 1.0, seed: int = 0) -> Outcome:
    """Run them all; None: equal weights. Each decision sees new noise."""
    rng = np.random.default_rng(seed)
    num, state = len(jobs), PolicyState()
    done_s, end_s, usable_s = np.zeros(num), np.full(num, np.nan), np.full(num, np.nan)
    share, is_there, num_changes = np.ones(num), np.zeros(num, dtype=bool), 0
    arrives_s, work_s = np.array([job.arrives_s for job in jobs]), np.array([job.work_s for job in jobs])
    needs_s = np.array([job.usable_s for job in jobs])
    clock = float(arrives_s.min())
    for _ in range(MOST_TURNS):
        rows = np.flatnonzero((arrives_s <= clock) & np.isnan(end_s))
        wake_s = math.inf
        if policy is not None and len(rows):
            seen = [
                best_effort(
                    jobs[row].id,
                    {1: 1.0},
                    work_s[row] - done_s[row],
                    done=done_s[row],
                    held=int(is_there[row]),
                    submitted=arrives_s[row] - clock,
                    value=jobs[row].value(done_s[row], rng.standard_normal()),
                    value_at=0.0 if jobs[row].is_seen else math.nan,
                    cpu=done_s[row] if is_there[row] else math.nan,
                    share=share[row],
                )
                for row in rows.tolist()
            ]
            state.begin(policy.name, clock)
            view = snapshot(seen, num, (1,), now_s=clock, cores=cores, num_whole=max(1, int(cores)))
            answer = policy.decide(replace(view, is_due=state.is_due, memory=state.memory))
            state.end(answer.memory, policy.period_s)
            assert answer.share is not None and (answer.workers == 1).all()
            num_changes += int((answer.share != share[rows]).sum())
            share[rows], wake_s = answer.share, answer.wake_s
            is_there[rows] = True
        rate = divide(share[rows], cores)
        with np.errstate(divide="ignore"):
            ends_s = clock + (work_s[rows] - done_s[rows]) / rate
        coming = arrives_s[arrives_s > clock]
        then = float(min(ends_s.min(initial=math.inf), coming.min(initial=math.inf), wake_s))
        if math.isinf(then):
            return Outcome(
                end_s - arrives_s, usable_s - arrives_s, clock - float(arrives_s.min()), num_changes
            )
        before = done_s[rows]
        done_s[rows] += rate * (then - clock)
        is_usable = (before < needs_s[rows]) & (done_s[rows] >= needs_s[rows] - 1e-9)
        for place in np.flatnonzero(is_usable).tolist():
            usable_s[rows[place]] = clock + (needs_s[rows[place]] - before[place]) / rate[place]
        end_s[rows[done_s[rows] >= work_s[rows] - 1e-7]] = then
        clock = then
    raise AssertionError(f"still going after {MOST_TURNS} decisions at {clock} s")


def exponential(part: float) -> Curve:
    return lambda at: np.exp(-at / part)


def hyperbola(part: float) -> Curve:
    return lambda at: 1.0 / (1.0 + 3.0 * at / part)


def plateau_first(part: float) -> Curve:
    return lambda at: 1.0 / (1.0 + np.exp(np.minimum((at / part - 1.0) * 4.0, 50.0)))


def two_falls(part: float) -> Curve:
    """A learning-rate drop half way."""
    later = np.vectorize(lambda at: math.exp(-max(at - 0.5, 0.0) / (0.1 * part + 0.01)))
    return lambda at: 0.6 * np.exp(-at / (0.15 * part)) + 0.4 * later(at)


def constant(part: float) -> Curve:
    return lambda at: np.ones_like(at)


def rising(part: float) -> Curve:
    return lambda at: 1.0 + at


Family = Callable[[float], Curve]


def some_learners(
    seed: int,
    families: Sequence[Family] = (exponential,),
    num: int = 10,
    *,
    window_s: float = 200.0,
    work_s: tuple[float, float] = (40.0, 240.0),
    noise: float = 0.0,
) -> list[Learner]:
    """Scales of losses are 10^U(-2, 2); parts of the work in which a loss falls are log-uniform."""
    rng = np.random.default_rng(seed)
    return [
        Learner(
            f"job {number:02}",
            float(rng.uniform(0.0, window_s)),
            float(rng.uniform(*work_s)),
            families[int(rng.integers(len(families)))](float(np.exp(rng.uniform(*np.log([0.03, 0.6]))))),
            scale=float(10.0 ** rng.uniform(-2.0, 2.0)),
            noise=noise,
        )
        for number in range(num)
    ]

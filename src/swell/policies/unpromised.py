"""The answer of policies that make no promises, and the two of these that need to know nothing of jobs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from swell.arrays import FloatArray, IntArray
from swell.model.plan import Allocation, PlanForecast
from swell.model.snapshot import Snapshot
from swell.policies import wording
from swell.policies.levels import Levels, all_levels, useful_levels
from swell.policies.policy import Policy
from swell.solvers.marginal import raise_in_order, serve_in_order
from swell.solvers.queueing import NEVER_S, list_schedule


def without_promises(
    snapshot: Snapshot,
    levels: Levels,
    level: IntArray,
    order: Sequence[int] | IntArray,
    why_has: Callable[[int], str],
    why_waits: str,
    end_s: FloatArray | None = None,
    codes: Mapping[int, str] | None = None,
) -> Allocation:
    """The answer of a policy that refuses no job.

    Every undecided job is let in. What the head then calls promised is only not refused: there are no
    floors, and deadlines play no part.

    Args:
        end_s: (J,) from now, of jobs of which the policy knows more than their rates say; NaN: of others.
        codes: of rows that have devices and another code than `sharing`.
    """
    is_sated = bool((level == levels.num).all())
    account = _Account(snapshot, levels, level, order, why_has, why_waits, end_s, codes or {})
    return _answer(account, levels.options_at(level), is_sated)


def chosen_without_promises(
    snapshot: Snapshot,
    option: IntArray,
    order: Sequence[int] | IntArray,
    why_has: Callable[[int], str],
    why_waits: str,
) -> Allocation:
    """The same for (J,) options: a table of levels is made only if reasons are asked for."""
    level = np.where(option >= 0, option - snapshot.options.starts[:-1] + 1, 0)
    account = _Account(snapshot, None, level, order, why_has, why_waits)
    return _answer(account, option, bool((level == snapshot.options.num).all()))


def _answer(account: _Account, option: IntArray, is_sated: bool) -> Allocation:
    return Allocation(
        options=account.snapshot.options,
        option=option,
        floor=np.zeros_like(option),
        refusals={},
        wake_s=math.inf,
        account=account,
        is_sated=is_sated,
    )


@dataclass(frozen=True)
class _Account:
    """Worked out when asked for; see `model.plan.Account`."""

    snapshot: Snapshot
    given_levels: Levels | None
    level: IntArray
    order: Sequence[int] | IntArray
    why_has: Callable[[int], str]
    why_waits: str
    known_end_s: FloatArray | None = None
    own_codes: Mapping[int, str] = field(default_factory=dict)

    @property
    def codes(self) -> Sequence[str]:
        codes = ["sharing" if level > 0 else "waiting" for level in self.level.tolist()]
        for row, code in self.own_codes.items():
            codes[row] = code
        return codes

    @cached_property
    def levels(self) -> Levels:
        return all_levels(self.snapshot) if self.given_levels is None else self.given_levels

    def text(self, row: int) -> str:
        if self.levels.num[row] == 0:
            return wording.fits_nowhere(self.snapshot)
        if self.level[row] == 0:
            is_higher = (self.level > 0) & (self.snapshot.priority > self.snapshot.priority[row])
            return wording.waits(self.why_waits, int(np.count_nonzero(is_higher)))
        return wording.gets(int(self.levels.workers[row, self.level[row] - 1]), self.why_has(row))

    @cached_property
    def forecast(self) -> PlanForecast:
        order = np.asarray(self.order, dtype=np.int64)
        ahead = look_ahead(self.snapshot, self.levels, self.level, order[self.level[order] == 0])
        if self.known_end_s is None:
            return ahead
        known_s = self.snapshot.now_s + self.known_end_s
        return ahead._replace(finish_s=np.where(np.isnan(known_s), ahead.finish_s, known_s))


def look_ahead(
    snapshot: Snapshot, levels: Levels, level: IntArray, waiting: Sequence[int] | IntArray
) -> PlanForecast:
    """Estimate from the present alone: no arrivals, and no size changes any more.

    A job that gets devices runs at that size to its end, after the pause its change costs. Those
    without start at their smallest size in the order `waiting`, as soon as enough devices are free
    (list scheduling).
    """
    start_s, end_s = np.zeros(snapshot.num_jobs), np.full(snapshot.num_jobs, NEVER_S)
    has = level > 0
    runs_s = snapshot.remaining_steps[has] / levels.rates_at(level)[has]
    end_s[has] = np.minimum(_pauses_s(snapshot, levels.workers_at(level))[has] + runs_s, NEVER_S)
    devices = levels.devices_at(level)
    rows = np.asarray(waiting, dtype=np.int64)
    wanted, lasts_s = _alone(snapshot, levels, rows)
    num_free = snapshot.num_devices - int(devices.sum())
    end_s[rows] = list_schedule(num_free, end_s[has], devices[has], wanted, lasts_s)
    start_s[rows] = np.maximum(0.0, end_s[rows] - lasts_s)
    finish_s = np.where(end_s >= NEVER_S, np.inf, snapshot.now_s + end_s)
    return PlanForecast(np.where(start_s >= NEVER_S, np.nan, snapshot.now_s + start_s), finish_s)


def _pauses_s(snapshot: Snapshot, workers: IntArray) -> FloatArray:
    """(J,) time that going from what is held to `workers` takes from training."""
    held = snapshot.held_workers
    changes = np.where(workers > held, snapshot.growth_cost_s, snapshot.shrink_cost_s)
    return np.where(held == 0, snapshot.start_cost_s, np.where(workers == held, 0.0, changes))


def _alone(snapshot: Snapshot, levels: Levels, rows: IntArray) -> tuple[IntArray, FloatArray]:
    """Devices and durations of waiting jobs at their smallest sizes."""
    has_size = levels.num[rows] > 0
    rates_per_s = np.where(has_size, levels.rates[rows, 0], 1.0)
    lasts_s = snapshot.start_cost_s[rows] + snapshot.remaining_steps[rows] / rates_per_s
    devices = np.where(has_size, levels.devices[rows, 0], snapshot.num_devices + 1)
    return devices, np.where(has_size, np.minimum(lasts_s, NEVER_S), NEVER_S)


class Fifo(Policy):
    """First come, first served: each job gets the largest useful size that fits on what is left.

    No job overtakes: once a job cannot get even its smallest size, all later ones wait too. A job that fits
    nowhere in the cluster is passed over, or it would block the queue for ever. When a job ends, the
    earliest jobs grow first. Refuses no job and promises nothing (`unpromised.without_promises`).
    """

    name = "fifo"
    shares_fairly = True

    def decide(self, snapshot: Snapshot) -> Allocation:
        levels = useful_levels(snapshot)
        level = np.zeros(snapshot.num_jobs, dtype=np.int64)
        order = snapshot.arrival_order
        serve_in_order(level, levels.devices, levels.num, order, snapshot.num_devices)
        return without_promises(
            snapshot,
            levels,
            level,
            order,
            lambda row: "the most useful workers that earlier jobs leave free",
            "earlier jobs hold the devices, and no job may overtake",
        )


class EqualShare(Policy):
    """Devices divided equally between the jobs that can use any, rounded down to useful sizes.

    Leftovers go size by size, by arrival: first jobs whose share was too small for their smallest size get
    that, then jobs at their smallest size get the next one, and so on. Refuses no job and promises nothing
    (`unpromised.without_promises`).

    References: Liu et al., "BFTrainer: Low-Cost Training of Neural Networks on Unfillable Supercomputer
        Nodes", 2021, where an equal split is the baseline.
    """

    name = "equal_share"
    shares_fairly = True

    def decide(self, snapshot: Snapshot) -> Allocation:
        levels = useful_levels(snapshot)
        order = snapshot.arrival_order
        order = order[levels.num[order] > 0]
        share = snapshot.num_devices // max(1, len(order))
        is_level = np.arange(levels.devices.shape[1])[None, :] < levels.num[:, None]
        level = (is_level & (levels.devices <= share)).sum(axis=1)
        left = snapshot.num_devices - int(levels.devices_at(level).sum())
        for most in range(1, levels.highest + 1):
            if left == 0:
                break
            rows = order[level[order] == most - 1]
            left = raise_in_order(level, levels.devices, levels.num, rows, most, left)
        return without_promises(
            snapshot,
            levels,
            level,
            order,
            lambda row: f"an equal share is {share} devices; remaining devices go to earlier jobs",
            f"{len(order)} jobs share {snapshot.num_devices} devices, and earlier jobs come first",
        )

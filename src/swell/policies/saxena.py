"""Saxena et al.: sizes and batches with the highest sum of throughput scaling factors, once a period."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Annotated, NamedTuple

import numpy as np
from msgspec import Meta

from swell.arrays import BoolArray, FloatArray, IntArray
from swell.model.options import Domain, FixedBatch, Sizes
from swell.model.plan import Allocation, Refusal
from swell.model.snapshot import Memory, Snapshot
from swell.policies.policy import Period, Policy, switch
from swell.policies.unpromised import chosen_without_promises
from swell.solvers.knapsack import best_options

#: By `fixed_batch`.
FIXED = (None, FixedBatch.LARGEST, FixedBatch.SMALLEST, FixedBatch.DRAWN)


class Saxena(Policy):
    """Every admitted job has a device; the others go where the throughput of jobs grows most.

    Jobs are admitted in order of arrival while each can have its smallest size. Then the sum of the jobs'
    throughputs, each over its throughput on one device and times its weight, is the highest possible one,
    with each job at its best batch. Between two decisions no gang changes. With `weighs_efficiency`
    throughput counts times the statistical efficiency of the batch, which the paper leaves to the range of
    batches that the user gives.

    References: Saxena et al., "Effective Elastic Scaling of Deep Learning Workloads", MASCOTS 2020, sections
        III-C (optimizer), III-D (autoscaler) and V-B (hybrid trigger).
    Deviates: Algorithm 1 as printed looks up a wrong size and a wrong column, and reads its result from a
        wrong row; `best_options` maximises equation (3) exactly, as the corrected program does. A trial of
        the autoscaler (Figure 4, line 18) is one addition, because a set of jobs is feasible if their
        smallest sizes fit. The loop of Figure 4 skips the job behind each one that it admits; here it tries
        every job. After a job that does not fit, the text stops and the figure goes on: here jobs that queue
        wait behind it, so that no wide job waits for ever, and where jobs are dropped the others are tried. A
        job whose smallest size is above `k_max` may have that size. A change of the number of devices is a
        reason to decide, too, and on an idle cluster an arrival does not wait for the period. A job that has
        run, or was promised its deadline by another policy, is not dropped. A drawn batch (sections IV-A and
        IV-B) is a function of the job's id, so that a journal leads to the same decisions again.
    """

    name = "saxena"
    domain = Domain(sizes=Sizes.EVERY, ends_at_peak=True, opens_batches=True)
    weighs_changes = True  # section III-D: the period keeps gangs from thrashing

    period_s: Period = 600.0  # section V-B
    k_max: Annotated[int, Meta(ge=1, description="Most devices of a job.")] = 10
    drops: Annotated[int, switch("1: jobs that do not fit at a decision are refused; 0: they wait.")] = 0
    ended_share: Annotated[
        float,
        Meta(
            ge=0,
            le=1,
            description="Share of the running jobs whose end leads to a decision before the period is over; "
            "0: every arrival and every end does.",
        ),
    ] = 0.05  # section V-B
    weighs_efficiency: Annotated[
        int,
        switch(
            "1: batches and sizes by goodput, which is throughput times the statistical efficiency "
            "that the measured noise of gradients gives each batch; 0: by throughput."
        ),
    ] = 0
    fixed_batch: Annotated[
        int,
        Meta(
            ge=0,
            le=3,
            description="1, 2, 3, as the paper compares with: each job has its largest, its smallest or a "
            "drawn batch at every size; 0: the best of each size.",
        ),
    ] = 0

    @property
    def offered(self) -> Domain:
        """See `Policy.offered`."""
        weighs, fixed = bool(self.weighs_efficiency), FIXED[self.fixed_batch]
        return replace(self.domain, weighs_efficiency=weighs, fixed_batch=fixed)

    def decide(self, snapshot: Snapshot) -> Allocation:
        last = _LastPlan.of(snapshot)
        if last is not None and not _is_time(snapshot, last, self.ended_share):
            option = snapshot.options.at(last.rows(snapshot))
            return replace(self._told(snapshot, option), memory=snapshot.memory)
        executing, waiting = _admitted(snapshot, last, goes_on=bool(self.drops))
        answer = self._told(snapshot, self._optimize(snapshot, executing))
        dropped = _dropped(snapshot, waiting) if self.drops else {}
        memory = _LastPlan.now(snapshot, answer.workers).memory()
        return replace(answer, memory=memory, refusals=dropped)

    def _optimize(self, snapshot: Snapshot, executing: BoolArray) -> IntArray:
        """(J,) equations (3) to (5): each job that executes has an option, no other job has one."""
        options = snapshot.options
        is_allowed = self._is_offered(snapshot) & executing[options.rows]
        value = np.where(is_allowed, self._value(snapshot), -math.inf)
        nothing = np.where(executing, -math.inf, 0.0)
        devices, order = options.devices, snapshot.arrival_order
        return best_options(options.starts, devices, value, nothing, snapshot.num_devices, order).option

    def _value(self, snapshot: Snapshot) -> FloatArray:
        """(O,) what is to be the most in sum: equation (1)."""
        return scaling_factors(snapshot.in_goodput() if self.weighs_efficiency else snapshot)

    def _is_offered(self, snapshot: Snapshot) -> BoolArray:
        """(O,) options of up to `k_max` devices, and the smallest of every job."""
        options = snapshot.options
        is_offered: BoolArray = options.devices <= self.k_max
        is_offered[options.starts[:-1][options.num > 0]] = True
        return is_offered

    def _told(self, snapshot: Snapshot, option: IntArray) -> Allocation:
        options = snapshot.options
        answer = chosen_without_promises(
            snapshot,
            option,
            snapshot.arrival_order,
            lambda row: "this division has the highest total of speed-ups over one device",
            "jobs that came before need all devices, or the next decision is not due yet",
        )
        most = np.zeros(snapshot.num_jobs, dtype=np.int64)
        np.maximum.at(most, options.rows, np.where(self._is_offered(snapshot), options.workers, 0))
        return replace(answer, is_sated=bool((answer.workers == most).all()))


def scaling_factors(snapshot: Snapshot) -> FloatArray:
    """(O,) equation (1), times the weight of the job: T_j(b, k) / T_j(b_j^max, 1).

    Deviates: of a job that one worker cannot run the base is the rate of its smallest size for each worker.
    """
    options = snapshot.options
    base = np.where(snapshot.one_worker_per_s > 0.0, snapshot.one_worker_per_s, snapshot.smallest_per_s)
    factor: FloatArray = options.rate_per_s / base[options.rows]
    return factor * snapshot.relative_weight[options.rows]


def _dropped(snapshot: Snapshot, waiting: IntArray) -> dict[int, Refusal]:
    """Section III-D: pending jobs that cannot be accommodated are rejected."""
    has_run = (snapshot.done_steps > 0.0) | (snapshot.held_workers > 0)
    refusal = Refusal(
        earliest_deadline_s=None,
        text="no device was left for it at this decision, and jobs do not queue; submit it again later",
    )
    is_new = ~(has_run | snapshot.is_promised)
    return {row: refusal for row in waiting.tolist() if is_new[row]}


# The autoscaler (Figure 4): when to decide, and which jobs are executing then.


class _LastPlan(NamedTuple):
    """The last decision, as the policy remembers it."""

    workers: dict[str, int]  #: of each job of EXECUTING, > 0
    num_devices: int  #: that were there

    @classmethod
    def of(cls, snapshot: Snapshot) -> _LastPlan | None:
        """None: there was none."""
        memory = snapshot.memory
        return cls(memory["workers"], memory["devices"]) if memory else None

    @classmethod
    def now(cls, snapshot: Snapshot, workers: IntArray) -> _LastPlan:
        by_id = {snapshot.job_ids[row]: int(workers[row]) for row in snapshot.arrival_order.tolist()}
        return cls({job_id: num for job_id, num in by_id.items() if num}, snapshot.num_devices)

    def memory(self) -> Memory:
        return {"workers": self.workers, "devices": self.num_devices}

    def rows(self, snapshot: Snapshot) -> IntArray:
        """(J,) workers of each job; 0 for one that was not admitted."""
        return np.array([self.workers.get(job_id, 0) for job_id in snapshot.job_ids], dtype=np.int64)

    def num_ended(self, snapshot: Snapshot) -> int:
        """FINISHED since then."""
        return sum(job_id not in snapshot.row_of for job_id in self.workers)


def _is_time(snapshot: Snapshot, last: _LastPlan | None, ended_share: float) -> bool:
    """Whether to decide again (Figure 4, line 13; section V-B).

    Something has arrived or ended, and the period is over, or `ended_share` of the executing jobs have ended.
    What was decided must be possible still. Devices that are idle at the end of a period are a reason, too:
    what is believed of a job may have changed since.
    """
    if last is None or not _is_possible(snapshot, last):
        return True
    num_ended = last.num_ended(snapshot)
    has_arrived = ((last.rows(snapshot) == 0) & (snapshot.options.num > 0)).any()
    has_idle = int(last.rows(snapshot) @ snapshot.devices_per_worker) < snapshot.num_devices
    has_come_or_gone = num_ended > 0 or last.num_devices != snapshot.num_devices
    is_news = bool(has_arrived) or has_come_or_gone or has_idle
    return is_news and (snapshot.is_due or num_ended >= ended_share * len(last.workers))


def _is_possible(snapshot: Snapshot, last: _LastPlan) -> bool:
    """Each size is an option still, and there are enough devices."""
    workers, options = last.rows(snapshot), snapshot.options
    is_same = options.workers_of(options.at(workers)) == workers
    return bool(is_same.all()) and int(workers @ snapshot.devices_per_worker) <= snapshot.num_devices


def _admitted(snapshot: Snapshot, last: _LastPlan | None, *, goes_on: bool) -> tuple[BoolArray, IntArray]:
    """(J,) EXECUTING after Figure 4, lines 14 to 22, and rows of the jobs that wait, in order of arrival.

    A set of jobs is feasible if their smallest sizes fit together, so that each trial takes one addition.

    Args:
        goes_on: after the first job that does not fit others are tried.
    """
    options = snapshot.options
    least = np.zeros(snapshot.num_jobs)
    least[options.num > 0] = options.devices[options.starts[:-1][options.num > 0]]
    least[options.num == 0] = math.inf
    was_executing = snapshot.held_workers > 0
    if last is not None:  # the devices of a job that is to start may not be free yet
        was_executing |= last.rows(snapshot) > 0
    executing = np.zeros(snapshot.num_jobs, dtype=bool)
    left, order = float(snapshot.num_devices), snapshot.arrival_order
    for row in order[was_executing[order]].tolist():  # all of them, unless devices were lost
        if least[row] <= left:
            executing[row], left = True, left - least[row]
    waiting: list[int] = []
    for row in order[~executing[order] & (options.num[order] > 0)].tolist():  # line 17: add one by one
        if least[row] <= left and (goes_on or not waiting):
            executing[row], left = True, left - least[row]
        else:
            waiting.append(row)
    return executing, np.array(waiting, dtype=np.int64)

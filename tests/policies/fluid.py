"""A world without noise in which a policy is followed to the letter: belief is truth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tests.policies.snapshots import Job, snapshot

from swell.core.last_plan import PolicyState
from swell.model.snapshot import STRICT
from swell.policies.policy import Policy

#: More turns than any honest run of a few jobs takes; a policy that needs them is going in circles.
MOST_TURNS = 400


@dataclass
class Run:
    finished: dict[str, float] = field(default_factory=dict)  #: seconds from the start
    promised: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    num_changes: int = 0


def follow(
    policy: Policy,
    jobs: Sequence[Job],
    num_devices: int,
    *,
    margin_share: float,
    min_hold_s: float,
    lost_steps: float = 0.0,
) -> Run:
    """Run all jobs to their ends; `submitted` is when a job arrives, `deadline` counts from the start.

    Changes are paid for, one after the other: the pause of one that comes within another's begins after it.

    Args:
        lost_steps: that a gang loses each time that it leaves a size.
    """
    run, clock = Run(), 0.0
    coming = sorted(jobs, key=lambda job: job.submitted)
    active: dict[str, Job] = {}
    ready_at: dict[str, float] = {}  #: end of the pause that a change costs
    state = PolicyState()
    for _ in range(MOST_TURNS):
        while coming and coming[0].submitted <= clock:
            job = coming.pop(0)
            active[job.id] = job
        seen = [
            replace(
                job,
                deadline=job.deadline - clock,
                submitted=job.submitted - clock,
                changed=job.changed - clock,
                idle=max(0.0, ready_at.get(job.id, clock) - clock) if job.held else 0.0,
            )
            for job in active.values()
        ]
        state.begin(policy.name, clock)
        view = snapshot(seen, num_devices, now_s=clock, margin_share=margin_share, min_hold_s=min_hold_s)
        answer = policy.decide(replace(view, is_due=state.is_due, memory=state.memory))
        state.end(answer.memory, policy.period_s)
        for row, job in enumerate(list(active.values())):
            if row in answer.refusals:
                run.refused.add(job.id)
                del active[job.id]
                continue
            if job.job_class == STRICT:
                run.promised.add(job.id)
            workers = int(answer.workers[row])
            if workers != job.held:
                run.num_changes += 1
                since = max(clock, ready_at.get(job.id, clock))
                cost = job.start_cost if job.held == 0 else job.resize_cost
                ready_at[job.id] = since + (cost if workers else 0.0)
                lost = lost_steps if job.held else 0.0
                active[job.id] = job = replace(job, changed=clock, steps=job.steps + lost)
            active[job.id] = replace(job, held=workers, promised=job.job_class == STRICT)
        ends = {
            job.id: max(clock, ready_at.get(job.id, clock)) + job.steps / job.rates[job.held]
            for job in active.values()
            if job.held
        }
        arrival = coming[0].submitted if coming else math.inf
        period_s = state.due_s if len(view.options.workers) else math.inf
        then = min(min(ends.values(), default=math.inf), answer.wake_s, period_s, arrival)
        if math.isinf(then):
            return run
        for job_id, job in list(active.items()):
            if not job.held:
                continue
            trained_s = max(0.0, then - max(clock, ready_at.get(job_id, clock)))
            left = job.steps - trained_s * job.rates[job.held]
            attained = job.attained + (then - clock) * job.held * job.devices_per_worker
            if ends[job_id] <= then or left <= 1e-9 * job.steps:
                run.finished[job_id] = then
                del active[job_id]
            else:
                active[job_id] = replace(job, steps=left, done=job.done + job.steps - left, attained=attained)
        clock = then
        if not active and not coming:
            return run
    raise AssertionError(f"still going after {MOST_TURNS} turns at {clock} s: {active}")

"""Each job worked out again: the steps of every segment, when it began and ended, what it held."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

from swell.sim.audit.differences import SHARE, STEPS, TIME_S, Differences, is_near
from swell.sim.audit.lists import audit_lists
from swell.sim.audit.pace import Pace
from swell.sim.audit.recorded import RecordedJob
from swell.sim.segments import Segment, gangs

Tell = Callable[[str], None]
#: Ends after which a job goes on from its checkpoint, which may be older than its end.
LOSSES = ("lost", "failed")


def audit_job(job: RecordedJob, pace: Pace, findings: Differences) -> None:
    tell = findings.telling(f"job {job.id}")
    for segment in job.segments:
        _audit_steps(job, segment, pace, tell)
    before: Segment | None = None
    for gang in gangs(job.segments):
        _audit_gang(gang, before, tell)
        before = gang[-1]
    _audit_times(job, tell)
    _audit_end(job, pace, tell)
    audit_lists(job, tell)
    _audit_deadline(job, tell)


def _audit_steps(job: RecordedJob, segment: Segment, pace: Pace, tell: Tell) -> None:
    """Check the steps of a segment against its rate and its pause."""
    if segment.until_s < segment.from_s:
        tell(f"a segment ends at {segment.until_s:.3f} s, before it begins at {segment.from_s:.3f} s")
        return
    trained_s = max(0.0, segment.until_s - max(segment.from_s, segment.trains_from_s))
    made = min(pace.step_after(segment, trained_s), float(job.num_steps))
    most = STEPS + TIME_S * segment.rate_per_s
    is_less = segment.until_step < made and (job.is_buggy or segment.end in LOSSES)
    if not is_less and not is_near(made, segment.until_step, most):
        tell(
            f"was at step {segment.until_step:.3f} at {segment.until_s:.3f} s by the record, {made:.3f} by "
            f"{trained_s:.3f} s at {segment.rate_per_s:.6g} steps/s from step {segment.from_step:.3f}"
        )
    if segment.trains and segment.rate_per_s <= 0.0:
        tell(f"trains from {segment.trains_from_s:.3f} s at no rate")


def _audit_gang(gang: Sequence[Segment], before: Segment | None, tell: Tell) -> None:
    """Each segment goes on where the one before it ended."""
    for one, other in pairwise(gang):
        if not is_near(one.until_s, other.from_s, TIME_S):
            tell(f"is not accounted for between {one.until_s:.3f} s and {other.from_s:.3f} s")
        if not is_near(one.until_step, other.from_step, STEPS):
            tell(f"leaps from step {one.until_step:.3f} to {other.from_step:.3f} at {other.from_s:.3f} s")
    if before is None:
        if gang[0].from_step:
            tell(f"begins at step {gang[0].from_step:.3f}")
        return
    if gang[0].from_s < before.until_s - TIME_S:
        tell(f"has two gangs at {gang[0].from_s:.3f} s")
    is_saved = before.end == "suspended"  # else the newest checkpoint counts, of whatever moment
    saved = math.floor(before.until_step + STEPS) if is_saved else before.until_step
    if gang[0].from_step > saved + STEPS:
        tell(f"goes on from step {gang[0].from_step:.3f}, and had come to {before.until_step:.3f}")


def _audit_times(job: RecordedJob, tell: Tell) -> None:
    first = next((segment for segment in job.segments if segment.trains), None)
    first_s = None if first is None else first.from_s
    if not _is_same(first_s, job.start_s):
        tell(f"began to train at {_shown(first_s)} by its segments, at {_shown(job.start_s)} by the record")
    if job.segments and job.segments[0].from_s < job.submit_s - TIME_S:
        tell(f"held devices at {job.segments[0].from_s:.3f} s, before it was submitted")
    held_s = sum(
        (segment.until_s - segment.from_s) * len(segment.devices)
        for gang in gangs(job.segments)
        for segment in _formed(gang)
    )
    if not is_near(held_s, job.device_s, TIME_S * sum(len(one.devices) for one in job.segments), SHARE):
        tell(f"held {held_s:.3f} device-seconds by its segments, {job.device_s:.3f} by the record")


def _formed(gang: Sequence[Segment]) -> Sequence[Segment]:
    """The segments of a gang from its first step on: devices count as used from then."""
    first = next((number for number, segment in enumerate(gang) if segment.trains), len(gang))
    return gang[first:]


def _audit_end(job: RecordedJob, pace: Pace, tell: Tell) -> None:
    if job.phase != "succeeded":
        return
    if not job.segments or job.segments[-1].end != "succeeded":
        tell("succeeded by the record, and no segment ends so")
        return
    last = job.segments[-1]
    if not is_near(last.until_step, job.num_steps, STEPS):
        tell(f"succeeded at step {last.until_step:.3f} of {job.num_steps}")
    if last.rate_per_s > 0.0:
        done_s = max(last.from_s, last.trains_from_s) + pace.time_s(last, job.num_steps)
        if not is_near(done_s, last.until_s, TIME_S + STEPS / last.rate_per_s):
            tell(f"would have been done at {done_s:.3f} s, and its last segment ends at {last.until_s:.3f} s")
    if not _is_same(last.until_s, job.end_s):
        tell(f"ended at {last.until_s:.3f} s by its segments, at {_shown(job.end_s)} by the record")
    if not _is_same(last.until_s - job.submit_s, job.jct_s):
        tell(f"took {last.until_s - job.submit_s:.3f} s by its segments, {_shown(job.jct_s)} by the record")


def _audit_deadline(job: RecordedJob, tell: Tell) -> None:
    kept = is_kept(job)
    if kept is not None and kept is not job.is_kept:
        tell(f"{'kept' if kept else 'missed'} its deadline at {_shown(job.deadline_s)}; the record denies it")


def is_kept(job: RecordedJob) -> bool | None:
    """Whether the job met its deadline, by its segments; None if it has no deadline.

    If it ended too near to the deadline for milliseconds to tell, the record is believed.
    """
    if job.deadline_s is None:
        return None
    if job.phase != "succeeded" or not job.segments:
        return False
    end_s = job.segments[-1].until_s
    return job.is_kept if is_near(end_s, job.deadline_s, TIME_S) else end_s <= job.deadline_s


def _is_same(one: float | None, other: float | None) -> bool:
    return one is other if one is None or other is None else is_near(one, other, TIME_S)


def _shown(at_s: float | None) -> str:
    return "no time" if at_s is None else f"{at_s:.3f} s"

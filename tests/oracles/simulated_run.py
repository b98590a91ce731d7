"""A simulated run worked out again from the segments that its gangs trained in.

Nothing that the simulator added up is asked: steps, times, devices, pauses and deadlines follow from them.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from swell.sim.outcome import JobOutcome, Segment, gangs

Tell = Callable[[str], None]
#: Of two ways to add up times and steps, and of a sum over many jobs.
TIME_S, STEPS, SHARE = 0.0021, 0.0021, 1e-4
#: Ends after which a job goes on from its checkpoint, which may be older than its end.
LOSSES = ("lost", "failed")


@dataclass(frozen=True, slots=True)
class Charge:
    """Seconds that a gang's start or change costs, with a surcharge for a set of devices new to the job."""

    any_s: float
    doubling_s: float = 0.0  #: of new devices, for each doubling of 1, and once for 1

    def of(self, devices: frozenset[str], known: set[frozenset[str]]) -> float:
        new_s = 0.0 if devices in known else self.doubling_s * (math.log2(max(len(devices), 1)) + 1.0)
        return self.any_s + new_s


def differences(
    jobs: Sequence[JobOutcome], devices: Iterable[str], charge: Charge | None = None
) -> list[str]:
    """Return what comes out otherwise than the run says.

    Args:
        devices: names of those of the cluster.
        charge: what starts and changes cost; None: it is not told by segments.
    """
    found: list[str] = []
    for job in jobs:

        def tell(what: str, job_id: str = job.id) -> None:
            found.append(f"job {job_id}: {what}")

        _check_job(job, tell)
        if charge is not None:
            _check_charges(job, charge, tell)
    _check_devices(jobs, frozenset(devices), found.append)
    return found


def _is_near(one: float, other: float, most: float, share: float = 0.0) -> bool:
    return one == other or math.isclose(one, other, rel_tol=share, abs_tol=most)


def _check_job(job: JobOutcome, tell: Tell) -> None:
    for segment in job.segments:
        _check_steps(job, segment, tell)
    before: Segment | None = None
    for gang in gangs(job.segments):
        _check_gang(gang, before, tell)
        before = gang[-1]
    _check_times(job, tell)
    _check_end(job, tell)
    _check_deadline(job, tell)


def _check_steps(job: JobOutcome, segment: Segment, tell: Tell) -> None:
    """Check the steps of a segment against its rate and its pause."""
    if segment.until_s < segment.from_s:
        tell(f"a segment ends at {segment.until_s:.3f} s, before it begins at {segment.from_s:.3f} s")
        return
    trained_s = max(0.0, segment.until_s - max(segment.from_s, segment.trains_from_s))
    made = min(segment.from_step + trained_s * segment.rate_per_s, float(job.num_steps))
    most = STEPS + TIME_S * segment.rate_per_s
    is_less = segment.until_step < made and (job.is_buggy or segment.end in LOSSES)
    if not is_less and not _is_near(made, segment.until_step, most):
        tell(
            f"was at step {segment.until_step:.3f} at {segment.until_s:.3f} s by the record, {made:.3f} by "
            f"{trained_s:.3f} s at {segment.rate_per_s:.6g} steps/s from step {segment.from_step:.3f}"
        )
    if segment.trains and segment.rate_per_s <= 0.0:
        tell(f"trains from {segment.trains_from_s:.3f} s at no rate")


def _check_gang(gang: Sequence[Segment], before: Segment | None, tell: Tell) -> None:
    """Each segment goes on where the one before it ended."""
    for one, other in pairwise(gang):
        if not _is_near(one.until_s, other.from_s, TIME_S):
            tell(f"is not accounted for between {one.until_s:.3f} s and {other.from_s:.3f} s")
        if not _is_near(one.until_step, other.from_step, STEPS):
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


def _check_times(job: JobOutcome, tell: Tell) -> None:
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
    if not _is_near(held_s, job.device_s, TIME_S * sum(len(one.devices) for one in job.segments), SHARE):
        tell(f"held {held_s:.3f} device-seconds by its segments, {job.device_s:.3f} by the record")


def _formed(gang: Sequence[Segment]) -> Sequence[Segment]:
    """The segments of a gang from its first step on: devices count as used from then."""
    first = next((number for number, segment in enumerate(gang) if segment.trains), len(gang))
    return gang[first:]


def _check_end(job: JobOutcome, tell: Tell) -> None:
    if job.phase != "succeeded":
        return
    if not job.segments or job.segments[-1].end != "succeeded":
        tell("succeeded by the record, and no segment ends so")
        return
    last = job.segments[-1]
    if not _is_near(last.until_step, job.num_steps, STEPS):
        tell(f"succeeded at step {last.until_step:.3f} of {job.num_steps}")
    if last.rate_per_s > 0.0:
        left_s = max(0.0, job.num_steps - last.from_step) / last.rate_per_s
        done_s = max(last.from_s, last.trains_from_s) + left_s
        if not _is_near(done_s, last.until_s, TIME_S + STEPS / last.rate_per_s):
            tell(f"would have been done at {done_s:.3f} s, and its last segment ends at {last.until_s:.3f} s")
    if not _is_same(last.until_s, job.end_s):
        tell(f"ended at {last.until_s:.3f} s by its segments, at {_shown(job.end_s)} by the record")
    if not _is_same(last.until_s - job.submit_s, job.jct_s):
        tell(f"took {last.until_s - job.submit_s:.3f} s by its segments, {_shown(job.jct_s)} by the record")


def _check_deadline(job: JobOutcome, tell: Tell) -> None:
    kept = _is_kept(job)
    if kept is not None and kept is not job.is_kept:
        tell(f"{'kept' if kept else 'missed'} its deadline at {_shown(job.deadline_s)}; the record denies it")


def _is_kept(job: JobOutcome) -> bool | None:
    """Whether the job met its deadline, by its segments; None if it has no deadline.

    If it ended too near to the deadline for milliseconds to tell, the record is believed.
    """
    if job.deadline_s is None:
        return None
    if job.phase != "succeeded" or not job.segments:
        return False
    end_s = job.segments[-1].until_s
    return job.is_kept if _is_near(end_s, job.deadline_s, TIME_S) else end_s <= job.deadline_s


def _is_same(one: float | None, other: float | None) -> bool:
    return one is other if one is None or other is None else _is_near(one, other, TIME_S)


def _shown(at_s: float | None) -> str:
    return "no time" if at_s is None else f"{at_s:.3f} s"


def _check_charges(job: JobOutcome, charge: Charge, tell: Tell) -> None:
    known: set[frozenset[str]] = set()
    for gang in gangs(job.segments):
        formed = [segment for segment in gang if segment.trains]
        if not formed:
            continue
        first = formed[0]
        due_s = charge.of(frozenset(first.devices), known)
        if not _is_near(first.from_s - gang[0].from_s, due_s, TIME_S):
            took_s = first.from_s - gang[0].from_s
            tell(f"started in {took_s:.3f} s at {gang[0].from_s:.3f} s, and {due_s:.3f} s is due")
        known.add(frozenset(first.devices))
        for one, other in pairwise(_Change.chain(formed, charge, known)):
            other.check(one, tell)


@dataclass(frozen=True, slots=True)
class _Change:
    """A segment that trains, and what had to be paid at its beginning."""

    segment: Segment
    due_s: float  #: 0: on the same devices as before

    @classmethod
    def chain(cls, formed: list[Segment], charge: Charge, known: set[frozenset[str]]) -> list[_Change]:
        found = [cls(formed[0], 0.0)]
        for before, segment in pairwise(formed):
            devices = frozenset(segment.devices)
            is_same = devices == frozenset(before.devices)
            due_s = 0.0 if is_same else charge.of(devices, known)
            if _is_near(before.from_s, segment.from_s, 0.0):  # of changes at one instant the dearer
                due_s = max(found[-1].due_s, due_s)
            known.add(devices)
            found.append(cls(segment, due_s))
        return found

    def check(self, before: _Change, tell: Tell) -> None:
        """Check when the pause of this change ends.

        It begins when an earlier pause has ended. Of changes at one instant only the costliest is charged.
        """
        segment, paid_s = self.segment, 0.0
        if _is_near(before.segment.from_s, segment.from_s, 0.0):
            paid_s = before.due_s
        from_s = max(segment.from_s, before.segment.trains_from_s)
        expected_s = from_s + self.due_s - paid_s
        if not _is_near(expected_s, segment.trains_from_s, TIME_S):
            tell(
                f"pauses at {segment.from_s:.3f} s until {segment.trains_from_s:.3f} s, and until "
                f"{expected_s:.3f} s is due"
            )


def _check_devices(jobs: Iterable[JobOutcome], known: frozenset[str], tell: Tell) -> None:
    """No device is anywhere twice, and none is used that is not there."""
    held: dict[str, list[tuple[float, float, str]]] = defaultdict(list)
    for job in jobs:
        for segment in job.segments:
            for device in segment.devices + segment.joining:
                held[device].append((segment.from_s, segment.until_s, job.id))
    for device, spans in sorted(held.items()):
        if device not in known:
            tell(f"device {device} is none of the cluster")
        until_s, owner = -1.0, ""
        for begin_s, end_s, job_id in sorted(spans):
            if begin_s < until_s - TIME_S and end_s - begin_s > TIME_S:
                tell(f"device {device} is held by jobs {owner} and {job_id} at {begin_s:.3f} s")
            if end_s > until_s:
                until_s, owner = end_s, job_id

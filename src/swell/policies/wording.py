"""Reasons: one sentence for people. Times are seconds from now; only the edges know calendars."""

from __future__ import annotations

from typing import NamedTuple

from swell.model.counted import told_devices, told_jobs, told_other_jobs, told_workers
from swell.model.expectation import EXPECTED_END, EXPECTED_START
from swell.model.lengths import relative, span
from swell.model.plan import Reason, Refusal
from swell.model.snapshot import Snapshot
from swell.solvers.queueing import NEVER_S

#: Of a promise whose reserve is used up.
NO_SLACK = "is on track, but has no slack"


class LaterNeed(NamedTuple):
    """The first step of a plan to more workers than it needs now."""

    workers: int
    in_s: float


def keeps_promise(
    workers: int,
    floor: int,
    until_s: float,
    saved_s: float,
    later: LaterNeed | None = None,
    num_others: int = 0,
) -> Reason:
    """A promised job that runs.

    Args:
        saved_s: what its workers above the floor save.
        later: None: its plan never needs more than the floor.
        num_others: promised jobs; among them a plan may have to use devices now that are theirs later.
    """
    promise, step = _promise(until_s), _later(later)
    if workers == floor:
        given = f", given the promises to {told_other_jobs(num_others)}" if num_others else ""
        text = f"has {told_workers(workers)}, exactly what {promise} needs now"
        return Reason("promised", f"{text}, and {step}{given}" if step else text + given)
    if floor == 0:
        needs = f", {step} needed for it" if step else ""
        return Reason(
            "boosted",
            f"has {told_workers(workers)}: ahead of schedule for {promise}, uses idle devices{needs}",
        )
    more = f"plus {workers - floor} to finish {span(saved_s)} sooner"
    needed = f"{floor} needed now and {step}" if step else f"{floor} needed now"
    return Reason("boosted", f"has {told_workers(workers)}: {needed} for {promise}, {more}")


def _later(later: LaterNeed | None) -> str:
    return "" if later is None else f"{later.workers} in {span(later.in_s)}"


def barely_keeps_promise(workers: int, until_s: float) -> Reason:
    """A promised job whose reserve is used up."""
    return Reason("promised", f"{_has_most(workers)}: {_promise(until_s)} {NO_SLACK}")


def promise_can_wait(until_s: float, starts_s: float) -> Reason:
    """A promised job whose plan begins later."""
    return Reason("waiting", f"waits: {_promise(until_s)} needs no workers for {span(starts_s)}")


def at_risk(workers: int, until_s: float, ends_s: float) -> Reason:
    """A promise that does not fit any more, by belief."""
    has = _has_most(workers) if workers else "waits for devices"
    end = "none of its allowed sizes fits" if ends_s >= NEVER_S else f"{EXPECTED_END} {relative(ends_s)}"
    return Reason("at_risk", f"{has}: {_promise(until_s)} is at risk, {end}")


def shares(workers: int, smallest: int, saved_s: float, ends_s: float) -> Reason:
    """A job that runs on what promises leave."""
    end = f"{EXPECTED_END} {relative(ends_s)}"
    if workers == smallest:
        return Reason("sharing", f"has {told_workers(workers)}, its minimum; {end}")
    more = f"plus {workers - smallest} to finish {span(saved_s)} sooner"
    return Reason("boosted", f"has {told_workers(workers)}: minimum {smallest}, {more}; {end}")


def gets(workers: int, why: str, ends_s: float) -> Reason:
    """A job that has what a simple rule gives it."""
    return Reason("sharing", f"has {told_workers(workers)}: {why}; {EXPECTED_END} {relative(ends_s)}")


def waits(for_what: str, starts_s: float, num_higher: int = 0) -> Reason:
    """A waiting job; `for_what` names the jobs or limits that it waits for.

    Args:
        num_higher: running jobs whose priority is higher.
    """
    higher = f" ({told_jobs(num_higher)} of higher priority)" if num_higher else ""
    return Reason("waiting", f"waits: {for_what}{higher}; {EXPECTED_START} {relative(starts_s)}")


def promisable(snapshot: Snapshot) -> str:
    """The devices that promises may stand on."""
    if snapshot.num_left_idle:
        return f"{snapshot.num_owned} devices that have a core each (promises use no others)"
    if not snapshot.num_borrowed:
        return f"{snapshot.num_devices} devices of the cluster"
    return f"{snapshot.num_owned} devices that are not borrowed"


def quota_of(snapshot: Snapshot, row: int) -> int | None:
    """Devices that jobs of its tenant may hold together; None: as many as there are."""
    if snapshot.quota_devices is None:
        return None
    quota = int(snapshot.quota_devices[snapshot.tenant[row]])
    return quota if quota < snapshot.num_devices else None


def no_size_fits(snapshot: Snapshot, row: int) -> str:
    """Sentence for a job that can be promised no deadline, as none of its sizes fits."""
    quota = quota_of(snapshot, row)
    if quota is not None and quota < snapshot.num_owned:
        what = "allow fewer workers, or ask for a higher quota"
        return f"none of its allowed sizes fits in its tenant's quota of {told_devices(quota)}; {what}"
    return f"none of its allowed sizes fits on the {promisable(snapshot)}; allow fewer workers or add nodes"


def fits_nowhere(snapshot: Snapshot) -> Reason:
    """A waiting job whose sizes are all larger than the cluster."""
    if snapshot.num_left_idle:
        few = f"{snapshot.num_devices} devices that have a core each"
        return Reason(
            "waiting", f"waits: none of its allowed sizes fits on the {few}, while a promise stands"
        )
    num_devices = snapshot.num_devices
    return Reason(
        "waiting",
        f"waits: none of its allowed sizes fits on the {num_devices} devices of the cluster; "
        "allow fewer workers or add nodes",
    )


def refused(refusal: Refusal) -> Reason:
    """A job that this plan refuses."""
    return Reason("refused", f"refused: {refusal.text}")


def _has_most(workers: int) -> str:
    return f"has {told_workers(workers)}, the most that are useful and free"


def _promise(until_s: float) -> str:
    if until_s >= 0:
        return f"the promise to end within {span(until_s)}"
    return f"the promise that ran out {span(-until_s)} ago"

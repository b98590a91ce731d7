"""Why a job has what it has, in one sentence for people. Times are seconds from now."""

from __future__ import annotations

from swell.model.counted import told_devices, told_jobs, told_other_jobs, told_workers
from swell.model.lengths import span
from swell.model.snapshot import Snapshot

#: Of a promise whose reserve is used up.
NO_SLACK = "is on track, but has no slack"


def keeps_promise(
    workers: int, floor: int, until_s: float, saved_s: float, later: str = "", num_others: int = 0
) -> str:
    """A promised job that runs.

    Args:
        saved_s: what its workers above the floor save.
        later: the first step of its plan to more workers than the floor, such as `4 in 46 s`.
        num_others: promised jobs; among them a plan may have to use devices now that are theirs later.
    """
    promise, has = _promise(until_s), f"has {told_workers(workers)}"
    if workers == floor:
        given = f", given the promises to {told_other_jobs(num_others)}" if num_others else ""
        text = f"{has}, exactly what {promise} needs now"
        return f"{text}, and {later}{given}" if later else text + given
    if floor == 0:
        needs = f", {later} needed for it" if later else ""
        return f"{has}: ahead of schedule for {promise}, uses idle devices{needs}"
    needed = f"{floor} needed now" + (f" and {later}" if later else "")
    return f"{has}: {needed} for {promise}, plus {workers - floor} to finish {span(saved_s)} sooner"


def barely_keeps_promise(workers: int, until_s: float) -> str:
    """A promised job whose reserve is used up."""
    return f"{_has_most(workers)}: {_promise(until_s)} {NO_SLACK}"


def promise_can_wait(until_s: float, starts_s: float) -> str:
    """A promised job whose plan begins later."""
    return f"waits: {_promise(until_s)} needs no workers for {span(starts_s)}"


def at_risk(workers: int, until_s: float, fits: bool) -> str:
    """A promise that does not fit any more, by belief."""
    has = _has_most(workers) if workers else "waits for devices"
    return f"{has}: {_promise(until_s)} is at risk{'' if fits else ', none of its allowed sizes fits'}"


def shares(workers: int, smallest: int, saved_s: float) -> str:
    """A job that runs on what promises leave."""
    if workers == smallest:
        return f"has {told_workers(workers)}, its minimum"
    more = f"plus {workers - smallest} to finish {span(saved_s)} sooner"
    return f"has {told_workers(workers)}: minimum {smallest}, {more}"


def gets(workers: int, why: str) -> str:
    """A job that has what a simple rule gives it."""
    return f"has {told_workers(workers)}: {why}"


def waits(for_what: str, num_higher: int = 0) -> str:
    """A waiting job; `for_what` names the jobs or limits that it waits for.

    Args:
        num_higher: running jobs whose priority is higher.
    """
    return f"waits: {for_what}" + (f" ({told_jobs(num_higher)} of higher priority)" if num_higher else "")


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


def fits_nowhere(snapshot: Snapshot) -> str:
    """A waiting job whose sizes are all larger than the cluster."""
    what, remedy = "of the cluster", "; allow fewer workers or add nodes"
    if snapshot.num_left_idle:
        what, remedy = "that have a core each", ", while a promise stands"
    return f"waits: none of its allowed sizes fits on the {snapshot.num_devices} devices {what}{remedy}"


def _has_most(workers: int) -> str:
    return f"has {told_workers(workers)}, the most that are useful and free"


def _promise(until_s: float) -> str:
    if until_s >= 0:
        return f"the promise to end within {span(until_s)}"
    return f"the promise that ran out {span(-until_s)} ago"

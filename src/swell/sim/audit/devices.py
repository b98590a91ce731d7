"""No device is anywhere twice, and none is used that is not there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from swell.sim.audit.differences import TIME_S, Differences
from swell.sim.audit.recorded import RecordedJob


def audit_devices(jobs: Iterable[RecordedJob], known: frozenset[str] | None, findings: Differences) -> int:
    """Returns how many devices were used.

    Args:
        known: those of the cluster; None: also borrowed ones, of which the record has no list.
    """
    held: dict[str, list[tuple[float, float, str]]] = defaultdict(list)
    for job in jobs:
        for segment in job.segments:
            for device in segment.devices + segment.joining:
                held[device].append((segment.from_s, segment.until_s, job.id))
    for device, spans in sorted(held.items()):
        where = f"device {device}"
        if known is not None and device not in known:
            findings.add(where, f"is held by job {spans[0][2]}, and is none of the cluster")
        _audit_spans(where, sorted(spans), findings)
    return len(held)


def _audit_spans(where: str, spans: list[tuple[float, float, str]], findings: Differences) -> None:
    until_s, owner = -1.0, ""
    for begin_s, end_s, job_id in spans:
        if begin_s < until_s - TIME_S and end_s - begin_s > TIME_S:
            findings.add(where, f"is held by jobs {owner} and {job_id} at {begin_s:.3f} s")
        if end_s > until_s:
            until_s, owner = end_s, job_id

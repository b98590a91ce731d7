"""What a job's line lists of its sizes, devices, starts and pauses, against its segments."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import zip_longest

from swell.sim.audit.differences import TIME_S, is_near
from swell.sim.audit.recorded import RecordedJob
from swell.sim.segments import Segment, gangs, holdings, pauses, starts

#: (when, what)
Entry = tuple[float, str]


def audit_lists(job: RecordedJob, tell: Callable[[str], None]) -> None:
    """The sizes are those that the scheduler believed in; the others are of what gangs did."""
    _audit_list("size", job.sizes, _sizes(job.segments), tell)
    _audit_list(
        "devices", job.devices, ((at_s, "+".join(held)) for at_s, held in holdings(job.segments)), tell
    )
    _audit_list(
        "start", job.starts, ((at_s, f"{first_s:.3f}") for at_s, first_s in starts(job.segments)), tell
    )
    _audit_list("pause", job.pauses, ((at_s, f"{length:.3f}") for at_s, length in pauses(job.segments)), tell)


def _sizes(segments: Sequence[Segment]) -> Iterable[Entry]:
    """Workers from each gang's first step on, 0 from its end on."""
    for gang in gangs(segments):
        has_formed = False
        for segment in gang:
            has_formed = has_formed or segment.trains
            if has_formed:
                yield segment.from_s, str(len(segment.devices))
        if gang[-1].end:
            yield gang[-1].until_s, "0"


def _audit_list(name: str, cell: str, entries: Iterable[Entry], tell: Callable[[str], None]) -> None:
    said = _changes((float(at_s), what) for at_s, _, what in (part.partition(":") for part in cell.split()))
    for one, other in zip_longest(_changes(entries), said):
        if one is None or other is None or not _is_same(one, other):
            tell(f"{name} is {_shown(one)} by its segments, {_shown(other)} by the record")
            return


def _changes(entries: Iterable[Entry]) -> list[Entry]:
    """Without what lasted no time, and without what was so before."""
    found: list[Entry] = []
    for at_s, what in entries:
        if found and is_near(found[-1][0], at_s, TIME_S):
            found.pop()
        if not found or found[-1][1] != what:
            found.append((at_s, what))
    return [entry for entry in found if entry != found[0] or entry[1] != "0"]


def _is_same(one: Entry, other: Entry) -> bool:
    if not is_near(one[0], other[0], TIME_S):
        return False
    return one[1] == other[1] or is_near(_time_s(one[1]), _time_s(other[1]), TIME_S)


def _time_s(what: str) -> float:
    """NaN if it is none."""
    try:
        return float(what)
    except ValueError:
        return math.nan


def _shown(entry: Entry | None) -> str:
    return "nothing more" if entry is None else f"{entry[1] or 'none'} at {entry[0]:.3f} s"

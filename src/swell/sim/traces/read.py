"""Reading a trace in any of the known formats, the more particular ones first."""

from __future__ import annotations

from pathlib import Path

from swell.sim.traces.entry import Skipped, Trace, TraceError, TraceJob, order, since
from swell.sim.traces.formats.gavel import GAVEL, SHOCKWAVE
from swell.sim.traces.formats.philly_json import PHILLY_JSON
from swell.sim.traces.formats.plain import PLAIN
from swell.sim.traces.formats.sacct import SACCT
from swell.sim.traces.formats.swf import SWF
from swell.sim.traces.formats.tables import TABLES
from swell.sim.traces.record import Format, Head, LineRemarks, cut
from swell.sim.traces.source import Source

FORMATS: tuple[Format, ...] = (PLAIN, *TABLES, SACCT, GAVEL, SHOCKWAVE, SWF, PHILLY_JSON)
PLAIN_HEADER = "submit_s,id,num_devices,duration_s"
BY_NAME = {known.name: known for known in FORMATS}


def read(path: Path, format_name: str | None = None, is_strict: bool = False) -> Trace:
    """The whole trace, on a clock that is 0 at the first submission.

    Args:
        format_name: instead of the one the file looks like.
        is_strict: the first malformed line raises instead of being skipped.

    Raises:
        TraceError: no such file, no known format, or (`is_strict`) a malformed line.
    """
    source, remarks = Source(path), LineRemarks()
    head = Head(source.head())
    known = by_name(format_name) if format_name else detect(source, head)
    jobs: dict[str, TraceJob] = {}
    skipped: list[Skipped] = []
    for line, entry in known.records(source, remarks):
        found = entry
        if isinstance(found, TraceJob) and found.id in jobs:
            found = Skipped(line, f"id was there before: {cut(found.id)!r}")
        if isinstance(found, TraceJob):
            jobs[found.id] = found
            continue
        if is_strict and found.is_malformed:
            raise TraceError(
                f"{path}, line {found.line}: {found.why}; mend the line, or leave out --strict to skip such "
                "lines"
            )
        skipped.append(found)
    ordered = sorted(jobs.values(), key=order)
    start_s = ordered[0].submit_s if ordered else 0.0
    return Trace(
        jobs=tuple(since(job, start_s) for job in ordered),
        format=known.name,
        source=str(path),
        epoch_s=start_s + known.epoch_s(head),
        skipped=tuple(skipped),
        notes=known.notes + remarks.lines(),
        warnings=tuple(remarks.warnings),
    )


def by_name(name: str) -> Format:
    """Raises TraceError that names those there are."""
    if name not in BY_NAME:
        raise TraceError(f"there is no format {name!r}; choose one of {', '.join(BY_NAME)}")
    return BY_NAME[name]


def detect(source: Source, head: Head) -> Format:
    """The format that the file looks like and in which at least one of its lines is a job.

    Raises:
        TraceError: it is empty, looks like none, or holds no job in any that it looks like.
    """
    if not head.text.strip():
        raise TraceError(f"{source.path} is empty; a trace has a line for each job")
    in_vain: list[str] = []
    for known in FORMATS:
        if known.is_like(head):
            skipped = _why_jobless(known, source)
            if skipped is None:
                return known
            in_vain.append(f"{known.name} (line {skipped.line}: {skipped.why})")
    if in_vain:
        raise TraceError(
            f"{source.path} looks like {' and '.join(in_vain)}, but none of its lines is a job. Name its "
            f"format with --format ({', '.join(BY_NAME)}), or write it as a plain one: {PLAIN_HEADER}"
        )
    first = head.lines[0][:100] if head.lines else head.text[:100]
    raise TraceError(
        f"{source.path} is no trace of a known format; it begins with {first!r}. "
        f"Name its format with --format ({', '.join(BY_NAME)}), or give it the header of a plain one: "
        f"{PLAIN_HEADER}"
    )


def _why_jobless(known: Format, source: Source) -> Skipped | None:
    """The first line, if there are lines and none of them is a job; reads as far as the first that is one."""
    first: Skipped | None = None
    for _, entry in known.records(Source(source.path), LineRemarks()):
        if not isinstance(entry, Skipped):
            return None
        first = first or entry
    return first

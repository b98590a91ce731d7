"""Reading a trace in any known format, the more particular ones first; and what is in it in numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

import msgspec

from swell.sim.traces.entry import Skipped, Trace, TraceError, TraceJob, order, since
from swell.sim.traces.formats.lines import GAVEL, PHILLY_JSON, SHOCKWAVE, SWF
from swell.sim.traces.formats.plain import PLAIN
from swell.sim.traces.formats.tables import SACCT, TABLES
from swell.sim.traces.record import Format, Head, LineRemarks, Source, cut

FORMATS: tuple[Format, ...] = (PLAIN, *TABLES, SACCT, GAVEL, SHOCKWAVE, SWF, PHILLY_JSON)
PLAIN_HEADER = "submit_s,id,num_devices,duration_s"
BY_NAME = {known.name: known for known in FORMATS}


#: Skipped lines that are shown of each reason.
NUM_EXAMPLES = 3
Value = TypeVar("Value")
QUANTILES = {"p10": 0.1, "p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}


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


class SkippedLines(msgspec.Struct, kw_only=True):
    """Lines that became no job for one and the same reason."""

    why: str
    count: int
    is_malformed: bool
    examples: list[Skipped]  #: the first few


class TraceStatistics(msgspec.Struct, kw_only=True):
    """Numbers of a trace. What no job tells is empty, 0 or None."""

    source: str
    format: str
    title: str  #: of the format
    jobs: int
    epoch_s: float | None  #: the first submission on the log's own clock
    span_s: float | None  #: from the first submission to the last
    device_seconds: float  #: durations times devices, of jobs that tell both
    mean_devices: float | None  #: device-seconds over the span: what the jobs would keep busy
    devices: dict[int, int]  #: number asked for -> jobs
    duration_s: dict[str, float]  #: quantiles
    models: dict[str, int]  #: most frequent first
    with_deadline: int
    deadline_share: dict[str, float]  #: quantiles of (deadline - submission) / duration
    with_steps: int
    best_effort: int
    soft: int
    status: dict[str, int]
    users: int
    tenants: int
    skipped: list[SkippedLines]
    notes: tuple[str, ...]


def quantiles(values: Iterable[float]) -> dict[str, float]:
    """Return values that occur, by the names of `QUANTILES`; empty if there are none."""
    ordered = sorted(values)
    if not ordered:
        return {}
    return {name: ordered[round(share * (len(ordered) - 1))] for name, share in QUANTILES.items()}


def survey(path: Path, format_name: str | None = None, is_strict: bool = False) -> TraceStatistics:
    """Arguments and errors as in `read`."""
    trace = read(path, format_name, is_strict)
    jobs = trace.jobs
    span_s = jobs[-1].submit_s if jobs else None
    device_seconds = sum((job.duration_s or 0.0) * (job.num_devices or 1) for job in jobs)
    due = [(job, job.deadline_s) for job in jobs if job.deadline_s is not None and not job.is_best_effort]
    return TraceStatistics(
        source=trace.source,
        format=trace.format,
        title=by_name(trace.format).title,
        jobs=len(jobs),
        epoch_s=trace.epoch_s if jobs else None,
        span_s=span_s,
        device_seconds=device_seconds,
        mean_devices=device_seconds / span_s if span_s else None,
        devices=dict(sorted(_counted(job.num_devices for job in jobs).items())),
        duration_s=quantiles(job.duration_s for job in jobs if job.duration_s is not None),
        models=_counted(job.model for job in jobs),
        with_deadline=len(due),
        deadline_share=quantiles(
            (at_s - job.submit_s) / job.duration_s for job, at_s in due if job.duration_s
        ),
        with_steps=sum(job.num_steps is not None for job in jobs),
        best_effort=sum(bool(job.is_best_effort) for job in jobs),
        soft=sum(bool(job.is_soft) for job in jobs),
        status=_counted(job.status for job in jobs),
        users=len(_counted(job.user for job in jobs)),
        tenants=len(_counted(job.tenant for job in jobs)),
        skipped=_by_reason(trace.skipped),
        notes=trace.notes,
    )


def _counted(values: Iterable[Value | None]) -> dict[Value, int]:
    """Count how often each value occurs; the most frequent comes first."""
    return dict(Counter(value for value in values if value is not None).most_common())


def _by_reason(skipped: Iterable[Skipped]) -> list[SkippedLines]:
    """Group skipped lines by reason; the reason of the most lines comes first."""
    groups: dict[str, list[Skipped]] = {}
    for entry in skipped:
        groups.setdefault(entry.rule, []).append(entry)
    found = (
        SkippedLines(why=why, count=len(own), is_malformed=own[0].is_malformed, examples=own[:NUM_EXAMPLES])
        for why, own in groups.items()
    )
    return sorted(found, key=lambda lines: -lines.count)

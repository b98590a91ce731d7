"""Reading a trace."""

from __future__ import annotations

from pathlib import Path

from swell.sim.traces.entry import Skipped, Trace, TraceError, TraceJob, order, since
from swell.sim.traces.formats.registry import by_name, detect
from swell.sim.traces.record import Head, LineRemarks, cut
from swell.sim.traces.source import Source


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

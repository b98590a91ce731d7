"""All formats, the more particular ones first."""

from __future__ import annotations

from swell.sim.traces.entry import Skipped, TraceError
from swell.sim.traces.formats.gavel import GAVEL, SHOCKWAVE
from swell.sim.traces.formats.philly_json import PHILLY_JSON
from swell.sim.traces.formats.plain import PLAIN
from swell.sim.traces.formats.sacct import SACCT
from swell.sim.traces.formats.swf import SWF
from swell.sim.traces.formats.tables import TABLES
from swell.sim.traces.record import Format, Head, LineRemarks
from swell.sim.traces.source import Source

FORMATS: tuple[Format, ...] = (PLAIN, *TABLES, SACCT, GAVEL, SHOCKWAVE, SWF, PHILLY_JSON)
PLAIN_HEADER = "submit_s,id,num_devices,duration_s"
BY_NAME = {known.name: known for known in FORMATS}


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

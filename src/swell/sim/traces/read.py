"""Reading a trace: job by job, or whole."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from swell.sim.traces.entry import Skipped, Trace, TraceJob, order, since
from swell.sim.traces.errors import TraceError
from swell.sim.traces.format import Format, Head
from swell.sim.traces.formats.plain import PLAIN
from swell.sim.traces.formats.registry import by_name, detect
from swell.sim.traces.formats.swf import SWF
from swell.sim.traces.record import LineRemarks, cut
from swell.sim.traces.source import Source


class TraceScan:
    """A trace that is read while one goes through it, once.

    Jobs come in the order of the file, with times on the file's own clock.

    Args:
        format_name: instead of the one the file looks like.
        is_strict: the first malformed line raises instead of being skipped.

    Raises:
        TraceError: no such file, no known format, or (`is_strict`) a malformed line.
    """

    def __init__(
        self,
        path: Path,
        format_name: str | None = None,
        is_strict: bool = False,
    ) -> None:
        self.source = Source(path)
        head = Head(self.source.head())
        self.format: Format = by_name(format_name) if format_name else detect(self.source, head)
        self.base_s = _base_s(self.format, head)  #: of the file's clock on that of the world
        self._remarks = LineRemarks()
        self._is_strict = is_strict

    def __iter__(self) -> Iterator[TraceJob | Skipped]:
        seen = set[str]()
        for line, entry in self.format.records(self.source, self._remarks):
            found = entry
            if isinstance(found, TraceJob):
                if found.id in seen:
                    found = Skipped(line, f"id was there before: {cut(found.id)!r}")
                else:
                    seen.add(found.id)
            if self._is_strict and isinstance(found, Skipped) and found.is_malformed:
                raise TraceError(
                    f"{self.source.path}, line {found.line}: {found.why}; mend the line, or leave out "
                    "--strict to skip such lines"
                )
            yield found

    def notes(self) -> tuple[str, ...]:
        """Complete once the trace has been gone through."""
        return self.format.notes + self._remarks.lines()

    @property
    def warnings(self) -> tuple[str, ...]:
        """What people should know of the file even if they do not ask; among the notes as well."""
        return tuple(self._remarks.warnings)


def _base_s(known: Format, head: Head) -> float:
    if known is SWF:
        return SWF.epoch_s(head.text)
    return PLAIN.epoch_s(head.text) if known is PLAIN else 0.0


def read(path: Path, format_name: str | None = None, is_strict: bool = False) -> Trace:
    """The whole trace, on a clock that is 0 at the first submission; arguments and errors: `TraceScan`."""
    scan = TraceScan(path, format_name, is_strict)
    jobs: list[TraceJob] = []
    skipped: list[Skipped] = []
    for entry in scan:
        if isinstance(entry, TraceJob):
            jobs.append(entry)
        else:
            skipped.append(entry)
    jobs.sort(key=order)
    start_s = jobs[0].submit_s if jobs else 0.0
    return Trace(
        jobs=tuple(since(job, start_s) for job in jobs),
        format=scan.format.name,
        source=str(path),
        epoch_s=start_s + scan.base_s,
        skipped=tuple(skipped),
        notes=scan.notes(),
        warnings=scan.warnings,
    )

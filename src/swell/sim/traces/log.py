"""A trace of any length, by submission: read once, then gone through as often as one likes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

from swell.sim.item_source import ItemSource, RepeatedItems
from swell.sim.traces.entry import TraceJob, since
from swell.sim.traces.ordered import Ordered
from swell.sim.traces.read import TraceScan
from swell.sim.traces.source import Watch, unwatched


class Log:
    """What `read` gives, in little memory: jobs beyond `ordered.NUM_HELD` wait in a temporary file.

    Of skipped lines it knows how many there are; `survey` tells why.

    Args:
        watch: called now and then with the bytes of the file that have been read.

    Raises:
        TraceError: as `TraceScan`, and where there is no room for the temporary file.
    """

    def __init__(
        self,
        path: Path,
        format_name: str | None = None,
        is_strict: bool = False,
        watch: Watch = unwatched,
    ) -> None:
        scan = TraceScan(path, format_name, is_strict, watch)
        ordered, start_s = Ordered(), math.inf
        self.num_skipped = 0
        for entry in scan:
            if isinstance(entry, TraceJob):
                ordered.add(entry)
                start_s = min(start_s, entry.submit_s)
            else:
                self.num_skipped += 1
        start_s = start_s if len(ordered) else 0.0
        self.jobs = _from(ordered, start_s)  #: on a clock that is 0 at the first submission
        self.format = scan.format.name
        self.source = str(path)
        self.epoch_s = start_s + scan.base_s
        self.notes = scan.notes()
        self.warnings = scan.warnings


def _from(ordered: Ordered, start_s: float) -> ItemSource[TraceJob]:
    if ordered.is_held:
        return tuple(since(job, start_s) for job in ordered)

    def jobs() -> Iterator[TraceJob]:
        return (since(job, start_s) for job in ordered)

    return RepeatedItems(len(ordered), jobs)

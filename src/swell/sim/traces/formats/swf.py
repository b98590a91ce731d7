"""Standard Workload Format of the Parallel Workloads Archive: 18 numbers a line, -1 for unknown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from swell.sim.traces.cells import is_number, number
from swell.sim.traces.entry import Malformed, Outside, Status, TraceJob
from swell.sim.traces.record import Head, LineRemarks, Records, records
from swell.sim.traces.source import Source

NUM_FIELDS = 18
STATUSES: dict[int, Status] = {0: "failed", 1: "completed", 5: "killed"}
#: Status of lines that tell of one part of a job which stands on a line of its own as well.
PARTS = (2, 3, 4)
UNIX_START = re.compile(r";\s*UnixStartTime\s*:\s*(\d+)")


def build(line: int, row_text: str) -> TraceJob:
    words = row_text.split()
    if len(words) != NUM_FIELDS:
        raise Malformed(f"number of fields is not {NUM_FIELDS}: {len(words)}")
    try:
        fields = [number(word) for word in words]
    except Malformed as error:
        raise Malformed(f"a field {error}") from error
    job_id, submit_s, wait_s, run_s, allocated, _, _, requested, *_ = fields
    status, user, group = (int(field) for field in fields[10:13])
    if status in PARTS:
        raise Outside("is one part of a job that stands on its own line")
    num_devices = requested if requested > 0 else allocated
    return TraceJob(
        id=f"{job_id:.0f}",
        submit_s=submit_s,
        num_devices=int(num_devices) if num_devices >= 0 else None,
        duration_s=run_s if run_s != -1 else None,
        user=str(user) if user >= 0 else None,
        tenant=str(group) if group >= 0 else None,
        status=STATUSES.get(status),
        ended_after_s=wait_s + run_s if wait_s >= 0 and run_s >= 0 else None,
    )


@dataclass(frozen=True)
class Swf:
    """Implements `Format`."""

    name: str = "swf"
    title: str = "Standard Workload Format"
    notes: tuple[str, ...] = ("a processor counts as a device",)

    def is_like(self, head: Head) -> bool:
        if not head.lines:
            return False
        words = head.lines[0].split()
        return len(words) == NUM_FIELDS and all(is_number(word) for word in words)

    def records(self, source: Source, remarks: LineRemarks) -> Records:
        yield from records(self._lines(source), build, remarks)

    def _lines(self, source: Source) -> Iterator[tuple[int, str]]:
        return (entry for entry in source.lines() if not entry[1].startswith(";"))

    def epoch_s(self, head_text: str) -> float:
        """Seconds since 1970 when the clock of the log stood at 0; 0 if it does not say."""
        match = UNIX_START.search(head_text)
        return float(match[1]) if match else 0.0


SWF = Swf()

"""Standard Workload Format of the Parallel Workloads Archive: 18 numbers a line, -1 for unknown."""

from __future__ import annotations

import re

from swell.sim.traces.cells import is_number, number
from swell.sim.traces.entry import InvalidLine, NoJob, Status, TraceJob
from swell.sim.traces.record import Format, Head

NUM_FIELDS = 18
STATUSES: dict[int, Status] = {0: "failed", 1: "completed", 5: "killed"}
#: Status of lines that tell of one part of a job which stands on a line of its own as well.
PARTS = (2, 3, 4)


def build(line: int, row_text: str) -> TraceJob:
    words = row_text.split()
    if len(words) != NUM_FIELDS:
        raise InvalidLine(f"number of fields is not {NUM_FIELDS}: {len(words)}")
    try:
        fields = [number(word) for word in words]
    except InvalidLine as error:
        raise InvalidLine(f"a field {error}") from error
    job_id, submit_s, wait_s, run_s, allocated, _, _, requested, *_ = fields
    status, user, group = (int(field) for field in fields[10:13])
    if status in PARTS:
        raise NoJob("is one part of a job that stands on its own line")
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


def _looks_so(head: Head) -> bool:
    words = head.lines[0].split() if head.lines else []
    return len(words) == NUM_FIELDS and all(is_number(word) for word in words)


SWF = Format(
    name="swf",
    title="Standard Workload Format",
    notes=("a processor counts as a device",),
    looks_so=_looks_so,
    build=build,
    comment=";",
    epoch=re.compile(r";\s*UnixStartTime\s*:\s*(\d+)"),
)

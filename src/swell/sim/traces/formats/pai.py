"""Alibaba's PAI of 2020: its table of tasks, and the flat list of jobs that is often made of it.

`pai_task_table` comes without a header: job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,
plan_mem,plan_gpu,gpu_type. It knows no submissions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from swell.sim.traces.cells import count, is_blank, number, status, text
from swell.sim.traces.entry import TraceJob
from swell.sim.traces.errors import Outside, TraceError
from swell.sim.traces.format import Head, Records
from swell.sim.traces.record import LineRemarks, needed, records
from swell.sim.traces.source import Source
from swell.sim.traces.table import FileColumn, Row, TableFormat, cells_of, column, needed_column, read_row

TASK_COLUMNS = {
    "job": ("job_name", text),
    "task": ("task_name", text),
    "num_instances": ("inst_num", number),
    "status": ("status", status),
    "submit_s": ("start_time", number),
    "end_s": ("end_time", number),
    "plan_cpu": ("plan_cpu", text),
    "plan_mem": ("plan_mem", text),
    "plan_gpu": ("plan_gpu", number),
    "gpu_type": ("gpu_type", text),
}
PLACES = [
    FileColumn(field, name, at, parse) for at, (field, (name, parse)) in enumerate(TASK_COLUMNS.items())
]
HEADER = tuple(name for name, _ in TASK_COLUMNS.values())
STATES = frozenset({"terminated", "failed", "running", "waiting"})


def build_task(row: Row, remarks: LineRemarks) -> TraceJob:
    if row["submit_s"] is None and row["status"] is None:
        raise Outside("never ran")  # it waits still
    start_s = needed(row["submit_s"], "start_time")
    if row["plan_gpu"] is None or row["plan_gpu"] == 0:
        raise Outside("asks for no device")
    devices = (row["num_instances"] or 1.0) * row["plan_gpu"] / 100.0
    if devices != math.ceil(devices):
        remarks.add("asks for a part of a device; counted as a whole one")
    ran_s = None if row["end_s"] is None else row["end_s"] - start_s
    return TraceJob(
        id=f"{row['job']}/{row['task']}",
        submit_s=start_s,
        num_devices=math.ceil(devices),
        duration_s=ran_s,
        ended_after_s=ran_s,
        status=row["status"],
    )


@dataclass(frozen=True)
class PaiTasks:
    """Implements `Format`."""

    name: str = "pai-tasks"
    title: str = "PAI 2020, table of tasks"
    notes: tuple[str, ...] = (
        "a task counts as a job",
        "the table knows no submissions: a task counts as submitted when it started",
    )

    def is_like(self, head: Head) -> bool:
        if not head.lines:
            return False
        if head.columns(",") == HEADER:
            return True
        cells = [cell.strip().lower() for cell in head.lines[0].split(",")]
        return len(cells) == len(HEADER) and cells[3] in STATES and not is_blank(cells[0])

    def records(self, source: Source, remarks: LineRemarks) -> Records:
        lines = source.lines()
        first = next(lines, (0, ""))
        if first[1].count(",") != len(HEADER) - 1:
            raise TraceError(
                f"{source.path} is no {self.name} trace: its first line has no {len(HEADER)} cells"
            )
        if first[1].lower().split(",")[0] != HEADER[0]:
            lines = source.lines()

        def build(line: int, row_text: str) -> TraceJob:
            return build_task(read_row(cells_of(row_text, ",", len(HEADER)), PLACES), remarks)

        yield from records(lines, build, remarks)


def build_flat(row: Row, remarks: LineRemarks) -> TraceJob:
    needed(row["submit_s"], "arrival_s")
    return TraceJob(**row)


PAI_TASKS = PaiTasks()
PAI = TableFormat(
    name="pai",
    title="PAI 2020, list of jobs",
    columns={
        "id": column("job_id", parse=text),
        "submit_s": needed_column("arrival_s", parse=number),
        "duration_s": needed_column("service_sec", parse=number),
        "num_devices": needed_column("gpu_count", parse=count),
    },
    build=build_flat,
)

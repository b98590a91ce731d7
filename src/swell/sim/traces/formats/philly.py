"""Microsoft's Philly cluster as flat tables, three of which are about: of jobs, of attempts, and Pollux's."""

from __future__ import annotations

from swell.sim.traces.cells import count, moment, number, status, text
from swell.sim.traces.entry import TraceJob
from swell.sim.traces.record import LineRemarks, needed
from swell.sim.traces.table import Row, TableFormat, column, needed_column


def build_job(row: Row, remarks: LineRemarks) -> TraceJob:
    needed(row["submit_s"], "submission")
    if row.pop("word") == "FailedOrKilled":
        remarks.add("status FailedOrKilled is read as failed")
    return TraceJob(**row)


def build_attempt(row: Row, remarks: LineRemarks) -> TraceJob:
    needed(row["submit_s"], "submit_time")
    wait_s = row.pop("wait_s")
    if row["duration_s"] is not None and wait_s is not None:
        row["ended_after_s"] = row["duration_s"] + wait_s
    return TraceJob(**row)


def build_stamped(row: Row, remarks: LineRemarks) -> TraceJob:
    needed(row["submit_s"], "timestamp")
    row.pop("gpu_time")
    return TraceJob(**row)


PHILLY = TableFormat(
    name="philly",
    title="Philly, list of jobs",
    columns={
        "id": column("job_id", parse=text),
        "user": column("user", parse=text),
        "tenant": needed_column("vc", parse=text),
        "submit_s": needed_column("submit_time_s", parse=number),
        "num_devices": needed_column("num_gpus", parse=count),
        "duration_s": needed_column("duration_s", parse=number),
        "status": column("status", parse=status),
        "word": needed_column("status", parse=text),
    },
    build=build_job,
)
PHILLY_ATTEMPTS = TableFormat(
    name="philly-attempts",
    title="Philly, list of attempts",
    columns={
        "duration_s": needed_column("run_time", parse=number),
        "wait_s": needed_column("wait_time", parse=number),
        "submit_s": needed_column("submit_time", parse=number),
        "num_devices": needed_column("gpu_num", parse=count),
    },
    build=build_attempt,
    notes=("an attempt counts as a job",),
)
PHILLY_STAMPED = TableFormat(
    name="philly-stamped",
    title="Philly, as Pollux's workloads are drawn from",
    columns={
        "submit_s": needed_column("timestamp", parse=moment),
        "duration_s": needed_column("duration", parse=number),
        "num_devices": needed_column("num_gpus", parse=count),
        "gpu_time": needed_column("gpu_time", parse=text),
        "tenant": column("cluster", parse=text),
    },
    build=build_stamped,
    notes=("times name no zone: read as UTC",),
)

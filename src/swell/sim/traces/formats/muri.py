"""Muri's traces: ElasticFlow's columns without deadlines, times in milliseconds."""

from __future__ import annotations

from swell.sim.traces.cells import count, milliseconds, number, text
from swell.sim.traces.entry import TraceJob
from swell.sim.traces.record import LineRemarks, needed
from swell.sim.traces.table import Row, TableFormat, column, needed_column


def build(row: Row, remarks: LineRemarks) -> TraceJob:
    needed(row["submit_s"], "submit_time")
    row.pop("step_ms")
    return TraceJob(**row)


MURI = TableFormat(
    name="muri",
    title="Muri",
    columns={
        "id": column("job_id", parse=text),
        "num_devices": needed_column("num_gpu", parse=count),
        "submit_s": needed_column("submit_time", parse=milliseconds),
        "num_steps": needed_column("iterations", parse=number),
        "model": needed_column("model_name", parse=text),
        "global_batch": needed_column("batch_size", parse=count),
        "duration_s": needed_column("duration", parse=milliseconds),
        "step_ms": needed_column("iteration_time", parse=text),
    },
    build=build,
    notes=("times are read as milliseconds",),
)

"""SenseTime's Helios clusters.

`job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue`
"""

from __future__ import annotations

from swell.sim.traces.cells import count, moment, number, status, text
from swell.sim.traces.entry import TraceJob
from swell.sim.traces.formats.interval import take_interval
from swell.sim.traces.record import LineRemarks, needed
from swell.sim.traces.table import Row, TableFormat, TraceColumn, column, needed_column


def build(row: Row, remarks: LineRemarks) -> TraceJob:
    needed(row["submit_s"], "submission")
    take_interval(row, remarks)
    return TraceJob(**row)


COLUMNS: dict[str, TraceColumn] = {
    "id": needed_column("job_id", parse=text),
    "user": column("user", parse=text),
    "num_devices": needed_column("gpu_num", parse=count),
    "status": needed_column("state", parse=status),
    "submit_s": needed_column("submit_time", parse=moment),
    "start_s": needed_column("start_time", parse=moment),
    "end_s": needed_column("end_time", parse=moment),
    "duration_s": column("duration", parse=number),
}

HELIOS = TableFormat(
    name="helios",
    title="Helios",
    columns=COLUMNS | {"tenant": needed_column("vc", parse=text)},
    build=build,
    notes=("times name no zone: read as UTC",),
)

"""Workloads of Pollux and Sia: `name,time,application,num_replicas,batch_size`.

They tell neither steps nor durations: in those papers a job ends when its model is good enough.
"""

from __future__ import annotations

from swell.sim.traces.cells import count, number, text
from swell.sim.traces.entry import TraceJob
from swell.sim.traces.record import LineRemarks, needed
from swell.sim.traces.table import Row, TableFormat, needed_column


def build(row: Row, remarks: LineRemarks) -> TraceJob:
    needed(row["submit_s"], "time")
    return TraceJob(**row)


POLLUX = TableFormat(
    name="pollux",
    title="Pollux, Sia",
    columns={
        "id": needed_column("name", parse=text),
        "submit_s": needed_column("time", parse=number),
        "model": needed_column("application", parse=text),
        "num_devices": needed_column("num_replicas", parse=count),
        "global_batch": needed_column("batch_size", parse=count),
    },
    build=build,
    notes=("a job ends when its model is good enough: the format tells neither steps nor durations",),
)

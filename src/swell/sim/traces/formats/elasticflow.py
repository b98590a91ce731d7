"""Traces of ElasticFlow's artifact, in both of its spellings, and of the Philly job lists beside them.

`job_id,submission_time,num_iteration,model_name,deadline,batch_size,num_gpu,duration`, or
`job_id,submit_time,iteration,model_name,ddl,batch_size,num_gpu,duration[,best_effort]`: seconds, absolute
deadlines, global batches.
"""

from __future__ import annotations

from swell.sim.traces.cells import bound, count, flag, number, text
from swell.sim.traces.entry import TraceJob
from swell.sim.traces.record import LineRemarks, needed
from swell.sim.traces.table import Row, TableFormat, column, needed_column


def build(row: Row, remarks: LineRemarks) -> TraceJob:
    needed(row["submit_s"], "submission")
    return TraceJob(**row)


ELASTICFLOW = TableFormat(
    name="elasticflow",
    title="ElasticFlow",
    columns={
        "id": column("job_id", parse=text),
        "submit_s": needed_column("submission_time", "submit_time", parse=number),
        "num_steps": needed_column("num_iteration", "iteration", "real_iteration", parse=number),
        "model": needed_column("model_name", parse=text),
        "deadline_s": needed_column("deadline", "ddl", parse=bound),
        "global_batch": needed_column("batch_size", parse=count),
        "num_devices": needed_column("num_gpu", parse=count),
        "duration_s": column("duration", "real_duration", parse=number),
        "is_best_effort": column("best_effort", parse=flag),
    },
    build=build,
)

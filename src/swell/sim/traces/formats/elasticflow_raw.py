"""Microsoft's raw traces, from which those of ElasticFlow's artifact were made: `data/raw-traces`.

`job_id,submission_time,duration,num_gpu`: seconds, and nothing of models or deadlines.
"""

from __future__ import annotations

from swell.sim.traces.cells import count, moment, number, text
from swell.sim.traces.entry import TraceJob
from swell.sim.traces.record import LineRemarks, needed
from swell.sim.traces.table import Row, TableFormat, needed_column

#: ElasticFlow's own traces have all of these columns too.
OTHERS = ("num_iteration", "model_name", "deadline")


def build(row: Row, remarks: LineRemarks) -> TraceJob:
    needed(row["submit_s"], "submission_time")
    return TraceJob(**row)


ELASTICFLOW_RAW = TableFormat(
    name="elasticflow-raw",
    title="ElasticFlow, raw traces",
    columns={
        "id": needed_column("job_id", parse=text),
        "submit_s": needed_column("submission_time", parse=moment),
        "duration_s": needed_column("duration", parse=number),
        "num_devices": needed_column("num_gpu", parse=count),
    },
    build=build,
    never=OTHERS,
)

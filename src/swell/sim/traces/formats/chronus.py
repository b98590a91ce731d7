"""Chronus' traces: times in minutes, deadlines after the submission; several if its value falls with time.

`job_id,user,num_gpu,submit_time,iterations,model_name,duration,interval,expect_time_list,
expect_value_list,best_effort,job_type`

No column names the unit. That it is minutes follows from the numbers: the submissions of a published trace
fill two weeks of them, for the latest of 199 jobs is at 20,134 of 20,160.
"""

from __future__ import annotations

from swell.sim.traces.cells import count, flag, minutes, number, text
from swell.sim.traces.entry import TraceJob
from swell.sim.traces.record import LineRemarks, needed
from swell.sim.traces.table import Row, TableFormat, column, needed_column


def first(cell: str) -> float:
    """Seconds, of `600-660-720` minutes."""
    return minutes(cell.split("-")[0])


def build(row: Row, remarks: LineRemarks) -> TraceJob:
    submit_s = needed(row["submit_s"], "submit_time")
    kind, expected_s = row.pop("kind", None), row.pop("expected_s")
    is_best_effort = bool(row.get("is_best_effort")) or kind in ("best", "best_effort")
    row["is_best_effort"] = is_best_effort
    row["is_soft"] = kind == "soft"
    row["deadline_s"] = None if is_best_effort or expected_s is None else submit_s + expected_s
    return TraceJob(**row)


CHRONUS = TableFormat(
    name="chronus",
    title="Chronus",
    columns={
        "id": column("job_id", parse=text),
        "user": column("user", parse=text),
        "num_devices": needed_column("num_gpu", parse=count),
        "submit_s": needed_column("submit_time", parse=minutes),
        "num_steps": needed_column("iterations", parse=number),
        "model": needed_column("model_name", parse=text),
        "duration_s": needed_column("duration", parse=minutes),
        "expected_s": needed_column("expect_time_list", parse=first),
        "is_best_effort": column("best_effort", parse=flag),
        "kind": column("job_type", parse=text),
    },
    build=build,
    notes=("times are read as minutes", "of several expected times the first is the deadline"),
)

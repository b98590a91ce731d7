"""What Slurm's `sacct` prints: `--parsable2` (`|`), or a CSV of it; any columns, in any order."""

from __future__ import annotations

from swell.sim.traces.cells import count, elapsed, moment, number, status, text
from swell.sim.traces.entry import NoJob, TraceJob
from swell.sim.traces.formats.tables import take_interval
from swell.sim.traces.record import LineRemarks
from swell.sim.traces.table import Row, TableFormat, column, needed_column
from swell.slurm_words import count_gpus

NODES_COUNT = "no column tells GPUs; a node counts as a device"
CORES_COUNT = "no column tells GPUs or nodes; a core counts as a device"


def devices_of(row: Row, remarks: LineRemarks) -> int | None:
    """Takes the columns that tell of devices from the row; the most telling one that is there counts."""
    taken, asked, old, num_gpus = (row.pop(name, None) for name in ("taken", "asked", "old", "num_gpus"))
    has_gpus = row.pop("has_gpus")
    nodes, cores = row.pop("nodes", None), row.pop("cores", None)
    if has_gpus:
        told = [value for value in (taken, asked, old, num_gpus) if value]
        return int(told[0]) if told else 0
    if nodes is not None:
        remarks.add(NODES_COUNT)
        return int(nodes)
    if cores is not None:
        remarks.add(CORES_COUNT)
        return int(cores)
    return None


def build(row: Row, remarks: LineRemarks) -> TraceJob:
    job_id, _, step = row["id"].partition(".")
    if step:
        raise NoJob("is a step of a job that stands on its own line")
    row["has_gpus"] = any(name in row for name in ("taken", "asked", "old", "num_gpus"))
    row["num_devices"] = devices_of(row, remarks)
    raw_s = row.pop("elapsed_s", None)
    if row.get("duration_s") is None:
        row["duration_s"] = raw_s
    if row["duration_s"] is not None:
        row.pop("start_s", None)  # Slurm leaves suspensions out of its elapsed time
    take_interval(row, remarks)
    row["tenant"] = row.pop("account", None) or row.pop("partition", None)
    row.pop("partition", None)
    return TraceJob(**row | {"id": job_id})


SACCT = TableFormat(
    name="sacct",
    title="Slurm's sacct",
    columns={
        "id": needed_column("jobid", parse=text),
        "user": column("user", parse=text),
        "account": column("account", parse=text),
        "partition": column("partition", parse=text),
        "submit_s": needed_column("submit", parse=moment),
        "start_s": column("start", parse=moment),
        "end_s": column("end", parse=moment),
        "duration_s": column("elapsedraw", parse=number),
        "elapsed_s": column("elapsed", parse=elapsed),
        "status": needed_column("state", parse=status),
        "taken": column("alloctres", parse=count_gpus),
        "asked": column("reqtres", parse=count_gpus),
        "old": column("allocgres", "reqgres", parse=count_gpus),
        "num_gpus": column("ngpus", parse=count),
        "nodes": column("nnodes", "allocnodes", parse=count),
        "cores": column("ncpus", "alloccpus", "reqcpus", parse=count),
    },
    job_of=build,
    delimiters="|,",
    notes=("times without a zone are read as UTC",),
)

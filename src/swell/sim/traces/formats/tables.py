"""Formats of logs that are tables with a line of column names, one declaration each."""

from __future__ import annotations

import math

from swell.sim.traces.entry import NoJob, TraceJob
from swell.sim.traces.record import LineRemarks
from swell.sim.traces.table import (
    Row,
    TableFormat,
    TraceColumn,
    bound,
    column,
    count,
    elapsed,
    flag,
    milliseconds,
    minutes,
    moment,
    needed_column,
    number,
    status,
    text,
    time_limit,
)
from swell.slurm_words import count_gpus

#: Logs round to seconds, some upwards.
TOLERANCE_S = 1.5
NO_ZONE = "times name no zone: read as UTC"


def take_interval(row: Row, remarks: LineRemarks) -> None:
    """Turns `start_s` and `end_s` of a row into `duration_s` and `ended_after_s`.

    End less start counts where both are there, for a column `duration` includes the wait in some logs.
    """
    start_s, end_s = row.pop("start_s", None), row.pop("end_s", None)
    if end_s is None:
        return
    row["ended_after_s"] = end_s - row["submit_s"]
    if start_s is None:
        return
    said_s = row.get("duration_s")
    row["duration_s"] = end_s - start_s
    if said_s is not None and abs(said_s - row["duration_s"]) > TOLERANCE_S:
        remarks.add("column duration is not end less start; end less start counts")


def _interval_job(row: Row, remarks: LineRemarks) -> TraceJob:
    take_interval(row, remarks)
    return TraceJob(**row)


def _chronus_job(row: Row, remarks: LineRemarks) -> TraceJob:
    kind, expected_s = row.pop("kind", None), row.pop("expected_s")
    is_best_effort = bool(row.get("is_best_effort")) or kind in ("best", "best_effort")
    row["is_best_effort"] = is_best_effort
    row["is_soft"] = kind == "soft"
    row["deadline_s"] = None if is_best_effort or expected_s is None else row["submit_s"] + expected_s
    return TraceJob(**row)


def _philly_job(row: Row, remarks: LineRemarks) -> TraceJob:
    if row.pop("word") == "FailedOrKilled":
        remarks.add("status FailedOrKilled is read as failed")
    return TraceJob(**row)


def _philly_attempt(row: Row, remarks: LineRemarks) -> TraceJob:
    wait_s = row.pop("wait_s")
    if row["duration_s"] is not None and wait_s is not None:
        row["ended_after_s"] = row["duration_s"] + wait_s
    return TraceJob(**row)


def _pai_task(row: Row, remarks: LineRemarks) -> TraceJob:
    num_instances, plan_gpu, end_s = row["num_instances"], row["plan_gpu"], row["end_s"]
    if not plan_gpu:
        raise NoJob("asks for no device")
    devices = (num_instances or 1.0) * plan_gpu / 100.0
    if devices != math.ceil(devices):
        remarks.add("asks for a part of a device; counted as a whole one")
    ran_s = None if end_s is None else end_s - row["submit_s"]
    return TraceJob(
        id=f"{row['job']}/{row['task']}",
        submit_s=row["submit_s"],
        num_devices=math.ceil(devices),
        duration_s=ran_s,
        ended_after_s=ran_s,
        status=row["status"],
    )


#: Traces of ElasticFlow's artifact, in both of its spellings, and the Philly job lists beside them.
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
)
#: Microsoft's raw traces, from which those of ElasticFlow's artifact were made: `data/raw-traces`.
ELASTICFLOW_RAW = TableFormat(
    name="elasticflow-raw",
    title="ElasticFlow, raw traces",
    columns={
        "id": needed_column("job_id", parse=text),
        "submit_s": needed_column("submission_time", parse=moment),
        "duration_s": needed_column("duration", parse=number),
        "num_devices": needed_column("num_gpu", parse=count),
    },
    never=("num_iteration", "model_name", "deadline"),  # ElasticFlow's own traces have these too
)
#: No column names the unit. That it is minutes follows from the numbers: the submissions of a published trace
#: fill two weeks of them, for the latest of 199 jobs is at 20,134 of 20,160.
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
        "expected_s": needed_column("expect_time_list", parse=lambda cell: minutes(cell.split("-")[0])),
        "is_best_effort": column("best_effort", parse=flag),
        "kind": column("job_type", parse=text),
    },
    job_of=_chronus_job,
    notes=("times are read as minutes", "of several expected times the first is the deadline"),
)
#: ElasticFlow's columns without deadlines, in milliseconds.
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
        "_step_ms": needed_column("iteration_time", parse=text),
    },
    notes=("times are read as milliseconds",),
)
#: In the papers of Pollux and Sia a job ends when its model is good enough.
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
    notes=("a job ends when its model is good enough: the format tells neither steps nor durations",),
)
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
    job_of=_philly_job,
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
    job_of=_philly_attempt,
    notes=("an attempt counts as a job",),
)
PHILLY_STAMPED = TableFormat(
    name="philly-stamped",
    title="Philly, as Pollux's workloads are drawn from",
    columns={
        "submit_s": needed_column("timestamp", parse=moment),
        "duration_s": needed_column("duration", parse=number),
        "num_devices": needed_column("num_gpus", parse=count),
        "_gpu_time": needed_column("gpu_time", parse=text),
        "tenant": column("cluster", parse=text),
    },
    notes=(NO_ZONE,),
)
_HELIOS_COLUMNS: dict[str, TraceColumn] = {
    "id": needed_column("job_id", parse=text),
    "user": column("user", parse=text),
    "num_devices": needed_column("gpu_num", parse=count),
    "status": needed_column("state", parse=status),
    "submit_s": needed_column("submit_time", parse=moment),
    "start_s": needed_column("start_time", parse=moment),
    "end_s": needed_column("end_time", parse=moment),
    "duration_s": column("duration", parse=number),
}
#: SenseTime's clusters.
HELIOS = TableFormat(
    name="helios",
    title="Helios",
    columns=_HELIOS_COLUMNS | {"tenant": needed_column("vc", parse=text)},
    job_of=_interval_job,
    notes=(NO_ZONE,),
)
#: Shanghai AI Lab's clusters, Seren and Kalos: Helios' table with a type of work instead of a tenant.
ACME = TableFormat(
    name="acme",
    title="Acme",
    columns=_HELIOS_COLUMNS | {"_type": needed_column("type", parse=text)},
    job_of=_interval_job,
)
#: The flat list of jobs that is often made of Alibaba's table of tasks.
PAI = TableFormat(
    name="pai",
    title="PAI 2020, list of jobs",
    columns={
        "id": column("job_id", parse=text),
        "submit_s": needed_column("arrival_s", parse=number),
        "duration_s": needed_column("service_sec", parse=number),
        "num_devices": needed_column("gpu_count", parse=count),
    },
)
#: Alibaba's `pai_task_table` of 2020, which comes without a line of names.
PAI_TASKS = TableFormat(
    name="pai-tasks",
    title="PAI 2020, table of tasks",
    columns={
        "job": needed_column("job_name", parse=text),
        "task": needed_column("task_name", parse=text),
        "num_instances": needed_column("inst_num", parse=number),
        "status": needed_column("status", parse=status),
        "submit_s": needed_column("start_time", parse=number),
        "end_s": needed_column("end_time", parse=number),
        "_plan_cpu": needed_column("plan_cpu", parse=text),
        "_plan_mem": needed_column("plan_mem", parse=text),
        "plan_gpu": needed_column("plan_gpu", parse=number),
        "_gpu_type": needed_column("gpu_type", parse=text),
    },
    job_of=_pai_task,
    unnamed=frozenset({"terminated", "failed", "running", "waiting"}),
    notes=(
        "a task counts as a job",
        "the table knows no submissions: a task counts as submitted when it started",
    ),
)
TABLES = (
    *(ELASTICFLOW, ELASTICFLOW_RAW, CHRONUS, MURI, POLLUX, PHILLY, PHILLY_ATTEMPTS, PHILLY_STAMPED),
    *(HELIOS, ACME, PAI, PAI_TASKS),
)


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


def _sacct_job(row: Row, remarks: LineRemarks) -> TraceJob:
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
    row["time_limit_s"] = row.pop("limit_raw_s", None) or row.get("time_limit_s")
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
        "time_limit_s": column("timelimit", parse=time_limit),
        "limit_raw_s": column("timelimitraw", parse=lambda cell: minutes(cell) if cell.isdecimal() else None),
        "status": needed_column("state", parse=status),
        "taken": column("alloctres", parse=count_gpus),
        "asked": column("reqtres", parse=count_gpus),
        "old": column("allocgres", "reqgres", parse=count_gpus),
        "num_gpus": column("ngpus", parse=count),
        "nodes": column("nnodes", "allocnodes", parse=count),
        "cores": column("ncpus", "alloccpus", "reqcpus", parse=count),
    },
    job_of=_sacct_job,
    delimiters="|,",
    notes=("times without a zone are read as UTC",),
)

"""Every format: a sample in its layout, and the real ones where they are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.examples import fewer_if_quick

from swell.sim.profiles.built_in import PowerCurves
from swell.sim.traces.entry import Trace, TraceError, TraceJob
from swell.sim.traces.fill import fill
from swell.sim.traces.read import BY_NAME, FORMATS, read

ELASTICFLOW = """\
job_id,submission_time,num_iteration,model_name,deadline,batch_size,num_gpu,duration
a,1000,200,vgg16,1600,64,2,500
b,1100,300,bert,1900,128,1,900
"""
ELASTICFLOW_LATER = """\
job_id,submit_time,iteration,model_name,ddl,batch_size,num_gpu,duration,best_effort
a,1000,200,vgg16,1600,64,2,500,0
b,1100,300,bert,1900,128,1,900,1
"""
ELASTICFLOW_RAW = "job_id,submission_time,duration,num_gpu\n6b-4f,16566,3890,4\n7c-5a,16600,20,1\n"
PHILLY = """\
job_id,user,vc,submit_time_s,num_gpus,duration_s,status
7,u1,v1,50,4,120,Pass
8,,,60,1,10,FailedOrKilled
"""
PHILLY_ATTEMPTS = ",run_time,wait_time,submit_time,gpu_num\n0,100,20,1500000000,8\n1,50,0,1500000010,1\n"
PHILLY_STAMPED = """\
timestamp,duration,num_gpus,gpu_time,cluster
2017-10-09 07:01:55,66.0,2,132.0,v1
2017-10-09 07:00:55,30.0,1,30.0,v2
"""
PHILLY_JSON = """\
[
 {"status": "Pass", "vc": "v1", "jobid": "app_1", "user": "u1", "submitted_time": "2017-10-07 01:00:00",
  "attempts": [
   {"start_time": "2017-10-07 01:01:00", "end_time": "2017-10-07 01:02:00",
    "detail": [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}]},
   {"start_time": "2017-10-07 01:05:00", "end_time": "2017-10-07 01:15:00",
    "detail": [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}, {"ip": "m2", "gpus": ["gpu0", "gpu1"]}]}]},
 {"status": "Killed", "vc": "v2", "jobid": "app_2", "user": "u2", "submitted_time": "2017-10-07 00:30:00",
  "attempts": [{"start_time": "2017-10-07 00:31:00", "end_time": null,
    "detail": [{"ip": "m1", "gpus": ["gpu0"]}]}]}
]
"""
HELIOS = """\
job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue
1,u1,v1,8,32,1,COMPLETED,2020-06-09 18:41:01,2020-06-09 18:41:11,2020-06-09 18:42:51,100,10
2,u2,v1,1,4,1,CANCELLED,2020-06-09 18:41:05,2020-06-09 18:41:05,2020-06-09 18:41:15,10,0
"""
ACME = """\
job_id,user,node_num,gpu_num,type,state,submit_time,start_time,end_time,duration
x,u1,1,8,Pretrain,FAILED,2023-05-17 11:00:00+08:00,2023-05-17 11:00:10+08:00,2023-05-17 11:01:00+08:00,60
"""
PAI = "job_id,arrival_s,service_sec,gpu_count\nj1,100.0,50.0,8\nj2,110.0,5.0,1\n"
PAI_TASKS = """\
j1,tensorflow,1.0,Terminated,400000.0,400100.0,600.0,29.3,50.0,MISC
j1,worker,4.0,Failed,400010.0,400200.0,600.0,29.3,150.0,V100
j2,ps,2.0,Running,400020.0,,600.0,29.3,100.0,T4
"""
SWF = """\
; UnixStartTime: 1272639895
;
    1  10  5  222  80 -1 -1  64 14400 -1 1 7 3 -1 1 -1 -1 -1
    2  20 -1   -1  -1 -1 -1  16 14400 -1 5 8 3 -1 1 -1 -1 -1
"""
SACCT = """\
JobID|User|Account|Submit|Start|End|Elapsed|State|ReqTRES|AllocTRES
10|u1|lab|2024-01-01T00:00:00|2024-01-01T01:00:00|2024-01-01T02:00:30|01:00:30|COMPLETED|cpu=8|cpu=8,gres/gpu=4
10.batch|u1|lab|2024-01-01T00:00:00|2024-01-01T01:00:00|2024-01-01T02:00:30|01:00:30|COMPLETED||cpu=8
11|u2|lab|2024-01-01T00:10:00|2024-01-01T00:10:00|2024-01-02T00:10:00|1-00:00:00|TIMEOUT|gres/gpu=2|gres/gpu:a100=2
12|u2|lab|2024-01-01T00:20:00|Unknown|2024-01-01T00:30:00|00:00:00|CANCELLED by 42|gres/gpu=8|
13|u2|lab|2024-01-01T00:20:00|2024-01-01T00:20:00|2024-01-01T00:30:00|00:10:00|COMPLETED|cpu=4|cpu=4
"""
POLLUX = "name,time,application,num_replicas,batch_size\nncf-0,107,ncf,6,2048\nbert-1,110.5,bert,2,320\n"
GAVEL = (
    "ResNet-18 (batch size 32)\tpython3 main.py\t--num_steps\t1\t900\t12.000000\t4\n"
    "A3C\tpython3\t-n\t0\t50\t13.5\t1\n"
)
GAVEL_TEN = "LM (batch size 5)\tpython3 main.py\tfolder\t--steps\t1\t900\t2\t1.0\t1.2\t12.5\n"
SHOCKWAVE = "LM (batch size 5)\tpython3 main.py\tfolder\t--steps\t1\t900\t2\tgns\t1\t2.0\t600\t24\n"
CHRONUS_HEADER = (
    "job_id,user,num_gpu,submit_time,iterations,model_name,duration,interval,expect_time_list,expect_value_list,"
    "best_effort,job_type\n"
)
CHRONUS = f"""{CHRONUS_HEADER}\
0,v1,4,1000,690,resnet101,211,8,282,10,0,strict
1,v2,1,1010,690,resnet101,211,8,300-330-360,10-8-5,0,soft
2,v2,1,1020,690,resnet101,211,8,0,1,1,best
"""
MURI_COLUMNS = "interval,iteration_time,resource_time_0,resource_time_1,resource_time_2,priority"
MURI = f"""\
job_id,num_gpu,submit_time,iterations,model_name,batch_size,duration,{MURI_COLUMNS}
0,8,2000,585,dqn,128,286650,10,490,446,8,0,1
"""
PLAIN = "# epoch_s=500\nsubmit_s,id,num_devices,duration_s\n0,a,4,3600\n12.5,b,1,600\n"

#: name -> (text, what its first job is, number of jobs, epoch)
SAMPLES: dict[str, tuple[str, str, dict[str, Any], int, float]] = {
    "both-1": (
        "elasticflow",
        ELASTICFLOW,
        dict(
            id="a",
            num_devices=2,
            duration_s=500,
            model="vgg16",
            global_batch=64,
            num_steps=200,
            deadline_s=600,
        ),
        2,
        1000,
    ),
    "both-2": (
        "elasticflow",
        ELASTICFLOW_LATER,
        dict(
            id="a",
            num_devices=2,
            duration_s=500,
            model="vgg16",
            global_batch=64,
            num_steps=200,
            deadline_s=600,
            is_best_effort=False,
        ),
        2,
        1000,
    ),
    "raw": ("elasticflow-raw", ELASTICFLOW_RAW, dict(id="6b-4f", num_devices=4, duration_s=3890), 2, 16566),
    "philly": (
        "philly",
        PHILLY,
        dict(id="7", num_devices=4, duration_s=120, user="u1", tenant="v1", status="completed"),
        2,
        50,
    ),
    "attempts": (
        "philly-attempts",
        PHILLY_ATTEMPTS,
        dict(id="2", num_devices=8, duration_s=100, ended_after_s=120),
        2,
        1.5e9,
    ),
    "stamped": (
        "philly-stamped",
        PHILLY_STAMPED,
        dict(id="3", num_devices=1, duration_s=30, tenant="v2"),
        2,
        1507532455,
    ),
    "json": (
        "philly-json",
        PHILLY_JSON,
        dict(id="app_2", num_devices=1, user="u2", tenant="v2", status="killed"),
        2,
        1507336200,
    ),
    "helios": (
        "helios",
        HELIOS,
        dict(
            id="1",
            num_devices=8,
            duration_s=100,
            user="u1",
            tenant="v1",
            status="completed",
            ended_after_s=110,
        ),
        2,
        1591728061,
    ),
    "acme": (
        "acme",
        ACME,
        dict(id="x", num_devices=8, duration_s=50, user="u1", status="failed", ended_after_s=60),
        1,
        1684292400,
    ),
    "pai": ("pai", PAI, dict(id="j1", num_devices=8, duration_s=50), 2, 100),
    "pai-tasks": (
        "pai-tasks",
        PAI_TASKS,
        dict(id="j1/tensorflow", num_devices=1, duration_s=100, ended_after_s=100, status="completed"),
        3,
        400000,
    ),
    "swf": (
        "swf",
        SWF,
        dict(
            id="1",
            num_devices=64,
            duration_s=222,
            user="7",
            tenant="3",
            status="completed",
            ended_after_s=227,
        ),
        2,
        1272639905,
    ),
    "sacct": (
        "sacct",
        SACCT,
        dict(
            id="10",
            num_devices=4,
            duration_s=3630,
            user="u1",
            tenant="lab",
            status="completed",
            ended_after_s=7230,
        ),
        2,
        1704067200,
    ),
    "pollux": ("pollux", POLLUX, dict(id="ncf-0", num_devices=6, model="ncf", global_batch=2048), 2, 107),
    "gavel-7": (
        "gavel",
        GAVEL,
        dict(id="1", num_devices=4, model="ResNet-18", global_batch=128, num_steps=900),
        2,
        12,
    ),
    "gavel-10": (
        "gavel",
        GAVEL_TEN,
        dict(id="1", num_devices=2, model="LM", global_batch=10, num_steps=900),
        1,
        12.5,
    ),
    "shockwave": (
        "shockwave",
        SHOCKWAVE,
        dict(
            id="1", num_devices=2, model="LM", global_batch=10, num_steps=900, duration_s=600, deadline_s=1200
        ),
        1,
        24,
    ),
    "chronus": (
        "chronus",
        CHRONUS,
        dict(
            id="0",
            num_devices=4,
            duration_s=211 * 60,
            model="resnet101",
            num_steps=690,
            deadline_s=282 * 60,
            user="v1",
            is_best_effort=False,
            is_soft=False,
        ),
        3,
        60_000,
    ),
    "muri": (
        "muri",
        MURI,
        dict(id="0", num_devices=8, duration_s=286.65, model="dqn", global_batch=128, num_steps=585),
        1,
        2,
    ),
    "plain": ("plain", PLAIN, dict(id="a", num_devices=4, duration_s=3600), 2, 500),
}


@pytest.mark.parametrize("sample", SAMPLES)
def test_a_format_is_known_by_its_content_and_read(sample: str, write: Callable[..., Path]) -> None:
    name, text, first, num_jobs, epoch_s = SAMPLES[sample]
    trace = read(write(text))
    assert trace.format == name
    assert trace.jobs[0] == TraceJob(submit_s=0.0, **first)
    assert len(trace.jobs) == num_jobs
    assert trace.epoch_s == epoch_s
    assert not [entry for entry in trace.skipped if entry.is_malformed]


def test_there_is_a_sample_of_every_format() -> None:
    assert {name for name, *_ in SAMPLES.values()} == set(BY_NAME)
    assert len(BY_NAME) == len(FORMATS)


@pytest.mark.parametrize("sample", SAMPLES)
def test_every_format_is_known_by_one_reader_only(sample: str, write: Callable[..., Path]) -> None:
    """So that none of them hides another by standing before it."""
    from swell.sim.traces.record import Head

    name, text, *_ = SAMPLES[sample]
    assert [known.name for known in FORMATS if known.is_like(Head(text))] == [name]


def job(trace: Trace, job_id: str) -> TraceJob:
    return next(job for job in trace.jobs if job.id == job_id)


def test_philly_adds_up_attempts_and_takes_the_largest(write: Callable[..., Path]) -> None:
    found = job(read(write(PHILLY_JSON)), "app_1")
    assert (found.duration_s, found.num_devices, found.ended_after_s) == (660.0, 4, 900.0)


def test_sacct_takes_gpus_and_says_what_is_none(write: Callable[..., Path]) -> None:
    trace = read(write(SACCT))
    assert job(trace, "11").num_devices == 2
    assert job(trace, "11").duration_s == 86400.0
    assert [(entry.line, entry.why) for entry in trace.skipped] == [
        (3, "is a step of a job that stands on its own line"),
        (5, "never ran"),
        (6, "asks for no device"),
    ]


@pytest.mark.parametrize(
    ("header", "cell", "devices"),
    [
        ("NNodes", "21", 21),
        ("NCPUS", "64", 64),
        ("ReqGRES", "gpu:a100:4", 4),
        ("ReqGRES", "gpu:2", 2),
        ("ReqGRES", "gpu:1g.5gb:7", 7),
        ("AllocTRES", '"cpu=8,gres/gpu:a100=4,gres/gpu:v100=2"', 6),
    ],
)
def test_sacct_without_tres_counts_what_there_is(
    header: str, cell: str, devices: int, write: Callable[..., Path]
) -> None:
    trace = read(write(f"JobID,Submit,ElapsedRaw,State,{header}\n1,1700000000,60,COMPLETED,{cell}\n"))
    assert trace.jobs[0].num_devices == devices


def test_swf_takes_what_was_allocated_where_nothing_was_asked(write: Callable[..., Path]) -> None:
    line = "5 10 5 222 80 -1 -1 -1 -1 -1 {} 7 3 -1 1 -1 -1 -1\n"
    assert read(write(line.format(1))).jobs[0].num_devices == 80
    assert (
        read(write(line.format(3)), "swf").skipped[0].why
        == "is one part of a job that stands on its own line"
    )


def test_pai_rounds_parts_of_devices_up_and_says_so(write: Callable[..., Path]) -> None:
    trace = read(write(PAI_TASKS))
    assert [entry.num_devices for entry in trace.jobs] == [1, 6, 2]
    assert "1 job: asks for a part of a device; counted as a whole one" in trace.notes
    header = "job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,gpu_type\n"
    assert read(write(header + PAI_TASKS)).jobs == trace.jobs


def test_acme_goes_by_start_and_end_where_the_duration_includes_the_wait(write: Callable[..., Path]) -> None:
    assert read(write(ACME)).notes == ("1 job: column duration is not end less start; end less start counts",)


def test_chronus_knows_three_classes(write: Callable[..., Path]) -> None:
    strict, soft, best_effort = read(write(CHRONUS)).jobs
    assert (strict.is_soft, strict.is_best_effort) == (False, False)
    assert (soft.is_soft, soft.deadline_s) == (True, 310.0 * 60.0)
    assert (best_effort.is_best_effort, best_effort.deadline_s) == (True, None)


def test_a_format_can_be_named_and_must_fit(write: Callable[..., Path]) -> None:
    path = write(PLAIN)
    assert read(path, "plain").jobs == read(path).jobs
    with pytest.raises(TraceError, match="is no helios trace: it has no column job_id, gpu_num"):
        read(path, "helios")
    with pytest.raises(TraceError, match="there is no format 'x'; choose one of plain, elasticflow"):
        read(path, "x")


REAL = {
    "formats/RICC-2010-2.sample.swf": ("swf", 180, 0),
    "formats/acme_trace_kalos.readme.sample.csv": ("acme", 2, 0),
    "formats/acme_trace_seren.readme.sample.csv": ("acme", 2, 0),
    "formats/alibaba_pai2020.sample.csv": ("pai", 199, 0),
    "formats/chronus.sample.csv": ("chronus", 198, 1),
    "formats/gavel.sample.trace": ("gavel", 200, 0),
    "formats/helios_cluster_log.sample.csv": ("helios", 3, 0),
    "formats/hpc_cirrus_2024q1.sacct.sample.csv": ("sacct", 137, 62),
    "formats/muri_trace1.sample.csv": ("muri", 199, 0),
    "formats/philly.pollux.sample.csv": ("philly-stamped", 199, 0),
    "formats/philly_attempts.lumos.sample.csv": ("philly-attempts", 199, 0),
    "formats/philly_cluster_job_log.readme.sample.json": ("philly-json", 1, 0),
    "formats/shockwave.sample.trace": ("shockwave", 200, 0),
    "formats/sia_workload.sample.csv": ("pollux", 199, 0),
    "elasticflow/traces/195job.csv": ("elasticflow", 195, 0),
    "elasticflow/traces/elasticVpollux_e.csv": ("elasticflow", 195, 0),
    "elasticflow/traces/cluster01.csv": ("elasticflow", 1595, 0),
    "elasticflow/traces/cluster04.csv.gz": ("elasticflow", 15802, 0),
    "elasticflow/traces/philly_103959.csv": ("elasticflow", 876, 0),
    "pollux/workloads/workload-6.csv": ("pollux", 160, 0),
}


@pytest.mark.parametrize("name", REAL)
def test_real_traces_are_read_whole(name: str, data: Callable[[str], Path]) -> None:
    trace = read(data(name), is_strict=True)
    assert (trace.format, len(trace.jobs), len(trace.skipped)) == REAL[name]
    assert trace.jobs[0].submit_s == 0.0


@pytest.mark.slow
def test_all_of_philly_is_read(data: Callable[[str], Path]) -> None:
    trace = read(data("philly/philly.csv.gz"), is_strict=True)
    assert len(trace.jobs) == 111_539
    assert sum(entry.status == "completed" for entry in trace.jobs) == 82_247


def test_philly_job_is_as_others_count_it(data: Callable[[str], Path]) -> None:
    """Pollux's table of Philly has this job as 193,256 s on 8 GPUs."""
    (found,) = read(data("formats/philly_cluster_job_log.readme.sample.json")).jobs
    assert (found.duration_s, found.num_devices) == (193256.0, 8)


JUNK = [
    "",
    "-1",
    "0",
    "nan",
    "inf",
    "1e308",
    '"',
    ",",
    "\t",
    "\n",
    "|",
    "{",
    "]",
    "null",
    "\\",
    "\x00",
    "é",
    "9" * 400,
]
JUNK += [
    "2017-13-45 99:99:99",
    "0001-01-01 00:00:00",
    "9999-12-31 23:59:59",
    " ",
    "#",
    ";",
    "5-5:5:5",
    "1e-320",
]


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=fewer_if_quick(300))
@given(drawn=st.data())
def test_no_damage_to_a_file_of_any_format_is_a_crash(
    drawn: st.DataObject, write: Callable[..., Path]
) -> None:
    name, text, *_ = SAMPLES[drawn.draw(st.sampled_from(sorted(SAMPLES)))]
    for _ in range(drawn.draw(st.integers(1, 4))):
        start = drawn.draw(st.integers(0, len(text)))
        end = min(len(text), start + drawn.draw(st.sampled_from([0, 1, 2, 5, 10, 20])))
        text = text[:start] + drawn.draw(st.sampled_from(JUNK)) + text[end:]
    path = write(text)
    for format_name in (None, name):
        try:
            trace = read(path, format_name)
        except TraceError as error:
            assert str(path) in str(error)
        else:
            workload = fill(trace, PowerCurves())
            assert len(workload.jobs) + len(workload.dropped) == len(trace.jobs)


def test_sacct_tells_limits_of_time(write: Callable[..., Path]) -> None:
    limits = ["02:30:00", "1-00:00:00", "UNLIMITED", "Partition_Limit", ""]
    rows = [f"{at}|2024-01-0{at + 1}T00:00:00|COMPLETED|60|{limit}" for at, limit in enumerate(limits)]
    found = read(write("JobID|Submit|State|ElapsedRaw|Timelimit\n" + "\n".join(rows) + "\n"))
    assert [job.time_limit_s for job in found.jobs] == [9000.0, 86400.0, None, None, None]
    raw = read(write("JobID|Submit|State|TimelimitRaw\n1|2024-01-01T00:00:00|COMPLETED|90\n"))
    assert raw.jobs[0].time_limit_s == 5400.0

"""What can be wrong with a trace: every line becomes a job, or is named with the reason."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import string
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from swell.sim.traces.entry import Status, Trace, TraceError, TraceJob, order
from swell.sim.traces.formats.plain import write_plain
from swell.sim.traces.read import read
from swell.sim.traces.record import LONGEST_LINE

Write = Callable[..., Path]

#: (cell of submit_s, id, num_devices, duration_s, deadline_s, why it is skipped, whether it is malformed)
BAD = [
    ("", "a,1,10,", "submit_s is missing", True),
    ("-5", "a,1,10,", "submission is negative: -5", True),
    ("soon", "a,1,10,", "submit_s is not a number: 'soon'", True),
    ("nan", "a,1,10,", "submit_s is missing", True),
    ("inf", "a,1,10,", "submit_s is not a finite number: 'inf'", True),
    ("1e300", "a,1,10,", "submit_s is larger than anything can be: '1e300'", True),
    ("1", "a,0,10,", "asks for no device", False),
    ("1", "a,-2,10,", "number of devices is negative: -2", True),
    ("1", "a,1,-10,", "duration is negative: -10", True),
    ("1", "a,1,0,", "never ran", False),
    ("1", "a,1,10,never", "deadline_s is not a number: 'never'", True),
    ("1", "a,1,10", "number of cells is not that of the header: 4 instead of 5", True),
    ("1", "a,1,10,,7", "number of cells is not that of the header: 6 instead of 5", True),
    ("1", 'a,1,"10,', "number of cells is not that of the header: 4 instead of 5", True),
]


@pytest.mark.parametrize(("submit", "rest", "why", "is_malformed"), BAD)
def test_a_bad_line_is_skipped_by_name_and_the_others_are_read(
    submit: str, rest: str, why: str, is_malformed: bool, write: Write
) -> None:
    path = write(f"submit_s,id,num_devices,duration_s,deadline_s\n0,x,1,10,\n{submit},{rest}\n5,y,1,10,\n")
    trace = read(path)
    assert [job.id for job in trace.jobs] == ["x", "y"]
    assert [(entry.line, entry.why, entry.is_malformed) for entry in trace.skipped] == [
        (3, why, is_malformed)
    ]
    if is_malformed:
        with pytest.raises(TraceError, match=r"line 3: .*mend the line, or leave out --strict"):
            read(path, is_strict=True)
    else:
        assert read(path, is_strict=True).jobs == trace.jobs


def test_a_second_job_of_one_id_is_skipped(write: Write) -> None:
    path = write("submit_s,id\n0,a\n1,b\n2,a\n")
    assert [entry.why for entry in read(path).skipped] == ["id was there before: 'a'"]
    with pytest.raises(TraceError, match="line 4: id was there before"):
        read(path, is_strict=True)


def test_a_deadline_before_the_submission_is_kept_and_said(write: Write) -> None:
    trace = read(write("submit_s,id,deadline_s,is_best_effort\n10,a,5,\n10,b,10,\n10,c,5,1\n10,d,11,\n"))
    assert [job.deadline_s for job in trace.jobs] == [-5.0, 0.0, -5.0, 1.0]
    assert trace.notes == ("2 jobs: deadline not after the submission; kept as it is, it cannot be met",)


def test_jobs_are_in_the_order_of_submission_then_of_numbers(write: Write) -> None:
    trace = read(write("submit_s,id\n7,10\n7,9\n3,z\n7,a\n"))
    assert [(job.submit_s, job.id) for job in trace.jobs] == [(0, "z"), (4, "9"), (4, "a"), (4, "10")]
    assert trace.epoch_s == 3.0


@pytest.mark.parametrize("text", ["", "\n \n", "submit_s,id\n", "# nothing\nsubmit_s,id\n"])
def test_nothing_to_read(text: str, write: Write) -> None:
    path = write(text)
    if text.strip():
        assert read(path) == Trace(jobs=(), format="plain", source=str(path))
    else:
        with pytest.raises(TraceError, match="is empty; a trace has a line for each job"):
            read(path)


def test_what_is_no_trace_is_said(tmp_path: Path, write: Write) -> None:
    with pytest.raises(TraceError, match="is no trace of a known format; it begins with 'hello'"):
        read(write("hello\n"))
    with pytest.raises(TraceError, match=r"cannot read .*: No such file"):
        read(tmp_path / "nothing.csv")
    with pytest.raises(TraceError, match=r"cannot read .*: Is a directory"):
        read(tmp_path)
    noise = tmp_path / "noise"
    noise.write_bytes(bytes(range(256)) * 20)
    with pytest.raises(TraceError, match="no trace of a known format"):
        read(noise)


def test_a_pipe_is_refused_for_its_beginning_would_be_lost(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(TraceError, match="pipe is a pipe, and a trace is opened twice; write it to a file"):
        read(tmp_path / "pipe")


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_packed_traces_are_seen_through_and_broken_ones_said(
    tmp_path: Path, pack: Callable[[bytes], bytes]
) -> None:
    text = "submit_s,id\n" + "".join(f"{at},{at}\n" for at in range(5000))
    packed = pack(text.encode())
    whole, cut = tmp_path / "whole.csv", tmp_path / "cut.csv.gz"
    whole.write_bytes(packed)
    cut.write_bytes(packed[: len(packed) // 2])
    assert len(read(whole).jobs) == 5000
    with pytest.raises(TraceError, match="is damaged"):
        read(cut)


def test_one_that_is_packed_otherwise_is_told_to_be(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "log.csv", "w") as packed:
        packed.writestr("log.csv", "submit_s,id\n0,a\n")
    with pytest.raises(
        TraceError, match=r"is packed with zip; unpack it, or pack it with gzip, bzip2 or xz$"
    ):
        read(tmp_path / "log.csv")


def test_a_byte_order_mark_and_line_ends_of_windows_are_no_matter(tmp_path: Path) -> None:
    path = tmp_path / "windows.csv"
    path.write_bytes(b"\xef\xbb\xbfsubmit_s,id\r\n0,a\r\n1,\xff\r\n")
    assert [job.id for job in read(path, is_strict=True).jobs] == ["a", "\N{REPLACEMENT CHARACTER}"]


def test_a_line_without_end_does_not_fill_memory(write: Write) -> None:
    path = write("submit_s,id\n0,a\n1," + "x" * (3 * LONGEST_LINE) + "\n2,b\n")
    trace = read(path)
    assert [job.id for job in trace.jobs] == ["a", "b"]
    assert [(entry.line, entry.why) for entry in trace.skipped] == [
        (3, "line of more than 1,048,576 characters")
    ]


PIECES = st.text(alphabet=string.printable + "é\x00\ufffd", max_size=30)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=st.lists(PIECES, max_size=8))
def test_whatever_stands_in_a_line_it_becomes_a_job_or_is_named(lines: list[str], tmp_path: Path) -> None:
    path = tmp_path / "any.csv"
    path.write_text("submit_s,id,num_devices,duration_s\n" + "\n".join(lines), "utf-8", newline="")
    trace = read(path, "plain")
    written = path.read_text("utf-8").split("\n")[1:]
    told = [line for line in written if line.strip() and not line.startswith("#")]
    assert len(trace.jobs) + len(trace.skipped) == len(told)


CELLS = st.text(
    alphabet=st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp", "Zs")), min_size=1, max_size=12
)
SECONDS = st.floats(0, 1e12, allow_subnormal=False)
POSITIVE = st.floats(1e-6, 1e12)
STATUSES: st.SearchStrategy[Status] = st.sampled_from(("completed", "failed", "killed"))


LOSSES = st.sampled_from(["exp:2.3:0.1:400", "exp:2:1:1e+3+noise:0.1", "points:0=2:10=1.5"])


@st.composite
def trace_jobs(draw: st.DrawFn) -> TraceJob:
    return TraceJob(
        id=draw(CELLS),
        submit_s=draw(SECONDS),
        num_devices=draw(st.none() | st.integers(1, 4096)),
        duration_s=draw(st.none() | POSITIVE),
        model=draw(st.none() | CELLS),
        global_batch=draw(st.none() | st.integers(1, 10**6)),
        num_steps=draw(st.none() | POSITIVE),
        deadline_s=draw(st.none() | st.floats(-1e12, 1e12)),
        is_best_effort=draw(st.none() | st.booleans()),
        is_soft=draw(st.none() | st.booleans()),
        user=draw(st.none() | CELLS),
        tenant=draw(st.none() | CELLS),
        status=draw(st.none() | STATUSES),
        ended_after_s=draw(st.none() | SECONDS),
        loss_curve=draw(st.none() | LOSSES),
        metric=draw(st.none() | CELLS),
        cores_per_worker=draw(st.none() | POSITIVE),
        priority=draw(st.none() | st.integers(-1000, 1000)),
        weight=draw(st.none() | st.floats(1e-6, 1e6)),
        min_devices=draw(st.none() | st.integers(0, 4096)),
    )


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    jobs=st.lists(trace_jobs(), max_size=6, unique_by=lambda job: job.id),
    epoch_s=st.floats(0, 1e10),
    is_packed=st.booleans(),
)
def test_what_is_written_is_read_back_to_the_bit(
    jobs: list[TraceJob], epoch_s: float, is_packed: bool, tmp_path: Path
) -> None:
    start_s = min((job.submit_s for job in jobs), default=0.0)
    anchored = [job for job in jobs if job.submit_s == start_s][:1]
    shifted = [
        TraceJob(**{name: getattr(job, name) for name in job.__struct_fields__} | {"submit_s": 0.0})
        if job in anchored
        else job
        for job in jobs
    ]
    trace = Trace(jobs=tuple(sorted(shifted, key=order)), format="plain", source="x", epoch_s=epoch_s)
    path = tmp_path / ("trace.csv.gz" if is_packed else "trace.csv")
    write_plain(path, trace.jobs, trace.epoch_s)
    again = read(path, is_strict=True)
    assert again.jobs == trace.jobs
    assert again.epoch_s == epoch_s
    assert list(tmp_path.glob("*.part")) == []


@pytest.mark.parametrize(
    ("cells", "why"),
    [
        ("exp:2.3:0.1,1", "loss_curve has 2 numbers where 3 belong: 'exp:2.3:0.1'"),
        ("exp:2.3:0.1:400,0", "cores_per_worker is not above 0: 0"),
        ("exp:2.3:0.1:400,two", "cores_per_worker is not a number: 'two'"),
    ],
)
def test_a_loss_curve_or_a_demand_that_cannot_be_is_named(cells: str, why: str, write: Write) -> None:
    trace = read(write(f"submit_s,id,loss_curve,cores_per_worker\n0,x,,\n1,a,{cells}\n"))
    assert [job.id for job in trace.jobs] == ["x"]
    assert [(entry.line, entry.why) for entry in trace.skipped] == [(3, why)]


@pytest.mark.parametrize("cell", ["1001", "-1001", "0.5"])
def test_a_priority_that_no_job_may_have_is_named(cell: str, write: Write) -> None:
    trace = read(write(f"submit_s,id,priority\n0,x,-3\n1,a,{cell}\n"))
    assert [(job.id, job.priority) for job in trace.jobs] == [("x", -3)]
    why = f"priority is not a whole number from -1000 to 1000: '{cell}'"
    assert [entry.why for entry in trace.skipped] == [why]


@pytest.mark.parametrize("cell", ["0", "-1", "1e7"])
def test_a_weight_that_no_job_may_have_is_named(cell: str, write: Write) -> None:
    trace = read(write(f"submit_s,id,weight\n0,x,2.5\n1,a,{cell}\n"))
    assert [(job.id, job.weight) for job in trace.jobs] == [("x", 2.5)]
    assert [entry.why for entry in trace.skipped] == [f"weight is not between 1e-06 and 1e+06: '{cell}'"]


def test_an_object_that_is_no_job_costs_itself_only(write: Write) -> None:
    good = '{"status": "Pass", "jobid": "%s", "submitted_time": "2017-10-07 01:00:00", "attempts": %s}'
    attempts = (
        '[{"start_time": "2017-10-07 01:01:00", "end_time": "2017-10-07 01:02:00", '
        '"detail": [{"ip": "m", "gpus": ["gpu0"]}]}]'
    )
    objects = [
        good % ("a", attempts),
        "7",
        good % ("c", attempts),
        good % ("d", "7"),
        good % ("e", "[]"),
        good % ("f", '[{"detail": [{"gpus": 3}]}]'),
        '{"status": "Pass", "jobid": "g", "attempts": ' + attempts + "}",
        good % ("h", attempts),
    ]
    trace = read(write("[\n" + ",\n".join(objects) + "\n]"))
    assert [job.id for job in trace.jobs] == ["a", "c", "h"]
    assert [(entry.line, entry.why) for entry in trace.skipped] == [
        (2, "is no JSON object"),
        (4, "attempts is no list of objects"),
        (5, "never ran"),
        (6, "detail is no list of machines with gpus"),
        (7, "submitted_time is missing"),
    ]
    with pytest.raises(TraceError, match=r"is no JSON list of jobs .*; fetch it again"):
        read(write("[\n" + ",\n".join(objects)))


def test_half_a_character_in_json_is_replaced_for_no_file_can_hold_it(write: Write, tmp_path: Path) -> None:
    attempts = '[{"start_time": "1", "end_time": "2", "detail": [{"gpus": ["g"]}]}]'
    text = '[{"status": "Pass", "jobid": "\\ud800x", "submitted_time": "1", "attempts": ' + attempts + "}]"
    trace = read(write(text))
    assert [job.id for job in trace.jobs] == ["?x"]
    write_plain(tmp_path / "plain.csv", trace.jobs)
    assert [job.id for job in read(tmp_path / "plain.csv").jobs] == ["?x"]


@pytest.mark.parametrize(
    ("cells", "why"),
    [
        (",64,32", "empty range of batches: 64 is above 32"),
        ("64,,32", "empty range of batches: 64 is above 32"),
        ("64,32,", "min_batch without max_batch"),
        (",,32", "max_batch without min_batch"),
        (",0,32", "min_batch is 0"),
        ("16,32,64", "global batch outside of its range: 16"),
        ("32,-1,64", "smallest batch is negative: -1"),
    ],
)
def test_a_range_of_batches_that_is_none_is_skipped(write: Write, cells: str, why: str) -> None:
    trace = read(write(f"submit_s,global_batch,min_batch,max_batch\n0,{cells}\n1,32,16,64\n2,32,,64\n"))
    assert [entry.why for entry in trace.skipped] == [why]
    assert [(one.min_batch, one.max_batch) for one in trace.jobs] == [(16, 64), (None, 64)]

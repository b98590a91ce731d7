from __future__ import annotations

import math
import os
import socket
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swell.api.fields import InvalidField, worker_range
from swell.api.job_file import load
from swell.api.script_source import MAX_SCRIPT_BYTES
from swell.api.submission import Submission, parse
from swell.api.times import parse_time, with_offset
from swell.model.errors import InvalidJob
from swell.model.job import EndCondition, JobClass, JobSpec, MetricTarget
from swell.model.quantities import format_duration, parse_duration
from swell.script_facts import ScriptNumbers

#: A restart job whose workers are told their part of the batch.
LOCAL: dict[str, Any] = {"args": ["--batch={local_batch}"], "elasticity": "restart", "steps": ...}
NOW_S = datetime(2030, 1, 1, 12, tzinfo=UTC).timestamp()


def spec(script: Path, /, **fields: Any) -> JobSpec:
    base = {"script": str(script), "global_batch": 64, "steps": 100}
    given_fields = {name: value for name, value in (base | fields).items() if value is not ...}
    return parse(given_fields).to_spec(NOW_S, script.parent)


# ---------------------------------------------------------------- durations
@given(st.integers(0, 10**9))
def test_durations_are_read_as_they_are_written(seconds: int) -> None:
    assert parse_duration(format_duration(seconds)) == seconds


@pytest.mark.parametrize("text", ["", "3", "m", "-3m", "3 m", "1m1h", "3min", "٣m", "1.5h", "now"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="write 90s"):
        parse_duration(text)


def test_a_short_job_is_made_complete(script: Path) -> None:
    assert spec(script) == JobSpec(
        name="train",
        entry=str(script),
        workdir=str(script.parent),
        global_batch=64,
        end=EndCondition(steps=100),
        job_class=JobClass.BEST_EFFORT,
    )


def test_a_live_worker_has_a_process_for_each_device_unless_one_is_to_use_them_all(script: Path) -> None:
    def num_processes(**said: object) -> int:
        return spec(script, **said).processes_per_worker

    assert num_processes() == num_processes(devices_per_worker=4, processes=1) == 1
    assert num_processes(devices_per_worker=4) == num_processes(devices_per_worker=4, processes=4) == 4
    assert num_processes(devices_per_worker=4, elasticity="restart") == 1


def test_a_full_job_keeps_what_was_said(script: Path) -> None:
    full = spec(
        script,
        name="digits.v2",
        args=["--lr", 0.1, "; rm -rf /"],
        steps=...,
        epochs=3,
        until="accuracy>=0.97",
        deadline="now+3m",
        **{"class": "soft"},
        workers="2:8",
        devices_per_worker=2,
        seed=7,
        tenant="lab/vision",
        kind="cuda:NVIDIA H200",
        metric="val/accuracy",
        metric_goes="up",
        memory="4GiB",
        stop_on_nan=True,
        on_drift="fail",
    )
    assert full.args == ("--lr", "0.1", "; rm -rf /")
    assert full.end == EndCondition(epochs=3.0, target=MetricTarget(name="accuracy", value=0.97))
    assert (full.deadline_s, full.job_class) == (NOW_S + 180, JobClass.SOFT)
    assert (full.min_workers, full.max_workers, full.devices_per_worker, full.seed) == (2, 8, 2, 7)
    assert (full.tenant, spec(script).tenant) == ("lab/vision", "")
    assert (full.kind, spec(script).kind) == ("cuda:NVIDIA H200", "")
    assert full.stop_on_nan and not spec(script).stop_on_nan
    assert (full.metric, full.metric_rises, full.memory_bytes) == ("val/accuracy", True, 4 << 30)
    assert (full.on_drift, spec(script).on_drift) == ("fail", None)


@pytest.mark.parametrize(
    ("given_fields", "metric", "rises"),
    [
        ({}, "loss", False),
        ({"metric": "perplexity"}, "perplexity", False),
        ({"metric": "accuracy", "metric_goes": "up"}, "accuracy", True),
        ({"until": "accuracy>=0.9"}, "loss", False),
        ({"until": "accuracy>=0.9", "metric": "accuracy"}, "accuracy", True),
        ({"until": "error<=0.1", "metric": "error"}, "error", False),
        ({"until": "accuracy>=0.9", "metric": "score", "metric_goes": "down"}, "score", False),
    ],
)
def test_the_evaluation_function_and_where_it_goes(
    script: Path, given_fields: dict[str, str], metric: str, rises: bool
) -> None:
    made = spec(script, **given_fields)
    assert (made.metric, made.metric_rises) == (metric, rises)


@pytest.mark.parametrize(
    ("text", "num_bytes"),
    [("500MB", 500 * 10**6), ("4GiB", 4 << 30), ("1.5G", 1500000000), (1 << 30, 1 << 30)],
)
def test_amounts_of_memory(script: Path, text: str | int, num_bytes: int) -> None:
    assert spec(script, memory=text).memory_bytes == num_bytes


@pytest.mark.parametrize(
    ("deadline", "seconds"),
    [
        ("now+90s", NOW_S + 90),
        ("now+1h30m", NOW_S + 5400),
        ("2030-01-01T12:10:00+00:00", NOW_S + 600),
        ("2030-01-01T12:10Z", NOW_S + 600),
        ("2030-01-01T14:10:00+02:00", NOW_S + 600),
        (NOW_S + 60, NOW_S + 60),
        (str(NOW_S + 60), NOW_S + 60),
        ("now + 3m", NOW_S + 180),
        ("+30m", NOW_S + 1800),
        ("5m", NOW_S + 300),
        ("1h30m", NOW_S + 5400),
        ("now+2d", NOW_S + 2 * 86400),
        ("20300102T000000Z", NOW_S + 12 * 3600),
    ],
)
def test_deadlines(script: Path, deadline: str | float, seconds: float) -> None:
    assert spec(script, deadline=deadline).deadline_s == seconds


@pytest.fixture
def _in_tokyo(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("TZ", "JST-9")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("_in_tokyo")
def test_a_time_without_a_zone_is_local(script: Path) -> None:
    assert spec(script, deadline="2030-01-01T21:10:00").deadline_s == NOW_S + 600


def _set_zone(patch: pytest.MonkeyPatch, zone: str) -> None:
    patch.setenv("TZ", zone)
    time.tzset()


@pytest.mark.usefixtures("_in_tokyo")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("23:30", datetime(2030, 1, 1, 14, 30, tzinfo=UTC)),
        ("at 8:00", datetime(2030, 1, 1, 23, tzinfo=UTC)),
        ("21:00", datetime(2030, 1, 2, 12, tzinfo=UTC)),
        ("today 23:30", datetime(2030, 1, 1, 14, 30, tzinfo=UTC)),
        ("Tomorrow  8:00", datetime(2030, 1, 1, 23, tzinfo=UTC)),
        ("tomorrow at 08:00:30", datetime(2030, 1, 1, 23, 0, 30, tzinfo=UTC)),
    ],
)
def test_a_time_of_today_or_tomorrow_is_local(script: Path, text: str, expected: datetime) -> None:
    """It is 21:00 of January 1 where it is asked."""
    assert spec(script, deadline=text).deadline_s == expected.timestamp()


@pytest.mark.usefixtures("_in_tokyo")
@pytest.mark.parametrize("text", ["2030-01-01T21:10", "2030-01-01T12:10Z", "tomorrow 07:30", "2030-01-02"])
def test_a_time_with_its_offset_is_the_same_moment_in_every_zone(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_s, sent = parse_time(text, NOW_S), with_offset(text, NOW_S)
    _set_zone(monkeypatch, "EST5EDT")
    assert parse_time(str(sent), NOW_S + 3.0) == at_s


@pytest.mark.parametrize(
    ("workers", "bounds"),
    [(None, (1, None)), ("1:8", (1, 8)), ("3:4", (3, 4)), ("4", (4, 4)), (4, (4, 4)), ("2:", (2, None))],
)
def test_worker_ranges(workers: str | int | None, bounds: tuple[int, int | None]) -> None:
    assert worker_range(workers) == bounds


@given(st.integers(1, 10**5), st.integers(1, 10**5))
def test_a_range_is_taken_exactly_if_a_power_of_two_lies_in_it(least: int, most: int) -> None:
    sizes = [1 << power for power in range(20) if least <= 1 << power <= most]
    if sizes:
        assert worker_range(f"{least}:{most}") == (least, most)
    else:
        with pytest.raises(InvalidField, match=r"^workers: "):
            worker_range(f"{least}:{most}")


def test_a_range_of_batches_leaves_the_batch_open(script: Path) -> None:
    open_batch = spec(script, batch="32:512")
    assert (open_batch.global_batch, open_batch.min_batch, open_batch.max_batch) == (64, 32, 512)
    assert spec(script, batch="32:512", global_batch=...).global_batch == 32
    assert open_batch.may_change_batch and not spec(script).may_change_batch


def test_a_batch_for_each_worker_follows_the_workers(script: Path) -> None:
    weak = spec(script, batch_per_worker=48, global_batch=..., workers="2:8")
    assert (weak.global_batch, weak.batch_per_worker, weak.max_batch) == (96, 48, None)
    assert spec(script, batch_per_worker=48).global_batch == 64


# ---------------------------------------------------------------- what breaks a rule
BROKEN: list[tuple[dict[str, Any], str, str]] = [
    ({"global_batch": ..., "speed": "1:5"}, "speed", "that of one batch; give global_batch, too"),
    ({"global_batch": 0}, "global_batch", "between"),
    ({"global_batch": "64"}, "global_batch", "'64' is not a whole number; correct it"),
    ({"global_batch": 2, "workers": "4:8"}, "global_batch", "shared by 4 workers"),
    ({"batch": "512:32"}, "batch", "MIN 512 is above MAX 32; write 32:512"),
    ({"batch": "64:64"}, "batch", "no choice"),
    ({"batch": 64}, "batch", "global_batch for a batch that never changes"),
    ({"batch": "32-512"}, "batch", "write 32:512"),
    ({"batch": "32:"}, "batch", "MIN:MAX"),
    ({"batch": "0:8"}, "batch", "at least 1 sample"),
    ({"batch": "1:3000000000"}, "batch", "between"),
    ({"batch": 1.5}, "batch", "1.5 is not a whole number or a text"),
    ({"batch": "2:8", "workers": "4:8", "global_batch": 8}, "batch", "raise MIN to 4"),
    ({"batch": "65:512"}, "global_batch", "64 is not within batch 65:512"),
    ({"batch": "32:512", "batch_per_worker": 32}, "batch_per_worker", "excludes batch"),
    ({"batch_per_worker": 0}, "batch_per_worker", "between"),
    ({"batch_per_worker": 2**30, "workers": "1:4"}, "batch_per_worker", "between"),
    ({"batch": "32:512", "elasticity": "restart", "steps": ...}, "batch", "restart job"),
    ({"batch_per_worker": 8, "elasticity": "restart", "steps": ...}, "batch_per_worker", "restart job"),
    ({"script": "absent.py"}, "script", "absent.py cannot be read"),
    ({"script": "."}, "script", "is a folder, not a file"),
    ({"script": "a\0b"}, "script", "NUL"),
    ({"script": "~nobody-of-this-name/x.py"}, "script", "user"),
    ({"entry": "a.b:c"}, "entry", "script is given too, and a job runs one of them; leave one out"),
    ({"script": ...}, "script", "missing; give script (a path), or entry"),
    ({"script": ..., "entry": "os.system('ls')"}, "entry", "package.module:function"),
    ({"workdir": "absent"}, "workdir", "not a folder"),
    ({"args": "--lr 0.1"}, "args", "is not a list"),
    ({"args": ["a\0b"]}, "args", "NUL"),
    ({"args": [{"a": 1}]}, "args", "a value in [{'a': 1}] is not a number or a text; correct it"),
    ({"name": "../../etc"}, "name", "letters"),
    ({"name": ""}, "name", "letters"),
    ({"name": "x" * 64}, "name", "63"),
    ({"epochs": 2}, "epochs", "give one of them, or none for the script's own end"),
    ({"steps": 0}, "steps", "between"),
    ({"steps": 1.5}, "steps", "1.5 is not a whole number"),
    ({"steps": ..., "epochs": 0}, "epochs", "0 is not above 0 and at most 1,000 billion"),
    ({"steps": ..., "samples": True}, "samples", "True is not a whole number; correct it"),
    ({"until": "accuracy>0.9"}, "until", "name>=number"),
    ({"deadline": "2001-01-01"}, "deadline", "in the past"),
    ({"deadline": "now+0s"}, "deadline", "now+0s is the present moment; choose a later one"),
    ({"deadline": "now-5m"}, "deadline", "now-5m is 5 min in the past; choose a later one"),
    ({"deadline": "today 25:00"}, "deadline", "not a time"),
    ({"deadline": "tomorrow"}, "deadline", "not a time"),
    ({"deadline": "9999-12-31T23:59:59"}, "deadline", "100 years"),
    ({"or_nothing": True}, "or_nothing", "this one is best_effort; remove it"),
    (
        {"or_nothing": True, "class": "soft", "deadline": "now+3m"},
        "or_nothing",
        "this one is soft; remove it",
    ),
    ({"or_nothing": "maybe", "deadline": "now+3m"}, "or_nothing", "'maybe' is not true or false; correct it"),
    ({"accept_until": "now+3m"}, "accept_until", "this one is best_effort; remove it"),
    ({"accept_until": "now+3m", "deadline": "now+4m"}, "accept_until", "choose a later time"),
    ({"accept_until": "later", "deadline": "now+4m"}, "accept_until", "not a time"),
    ({"class": "strict"}, "class", "need a deadline"),
    ({"class": "best_effort", "deadline": "now+3m"}, "class", "remove the deadline"),
    ({"class": "urgent"}, "class", "strict, soft, best_effort"),
    ({"priority": 1001}, "priority", "1001 is not between -1,000 and 1,000; choose a number that is"),
    ({"weight": 0}, "weight", "0 is not above 0 and at most 1,000,000; choose a number that is"),
    ({"weight": math.nan}, "weight", "nan is not above 0"),
    ({"speed": "fast"}, "speed", "'fast' is not WORKERS:SAMPLES_A_SECOND; write for example 1:7100,2:13100"),
    ({"speed": "1:0"}, "speed", "'1:0' is not WORKERS:SAMPLES_A_SECOND"),
    ({"speed": "1:5,1:6"}, "speed", "1 workers stand twice in it"),
    ({"speed": "1:5", "batch_per_worker": 4, "global_batch": ...}, "speed", "a speed is that of one batch"),
    (
        {"speed": "1:5", "elasticity": "restart", "steps": ...},
        "speed",
        "does not see the samples of a restart",
    ),
    ({"resize_up_s": -1}, "resize_up_s", "-1 is not between 0 and 1,000,000"),
    ({"resize_down_s": math.nan}, "resize_down_s", "nan is not between"),
    (
        {"keep_estimates": True},
        "keep_estimates",
        "nothing is stated; give speed, resize_up_s or resize_down_s",
    ),
    ({"workers": "8:4"}, "workers", "write 4:8"),
    ({"workers": "0:4"}, "workers", "at least 1"),
    ({"workers": "5:7"}, "workers", "5:7 allows none of these; write 4, 8 or 4:8"),
    ({"devices_per_worker": 3}, "devices_per_worker", "power of two"),
    ({"devices_per_worker": 4, "processes": 2}, "processes", "give 1, or one for each of them"),
    ({"processes": 0}, "processes", "give 1"),
    ({"elasticity": "restart", "devices_per_worker": 2, "processes": 2}, "processes", "more workers instead"),
    ({"elasticity": "rubber"}, "elasticity", "live, restart"),
    ({"args": ["{local_batch}"]}, "args", "is for restart jobs"),
    (LOCAL | {"global_batch": ...}, "global_batch", "give the batch of all workers"),
    (LOCAL | {"workers": "3:4"}, "workers", "choose a number that divides it"),
    ({"elasticity": "restart", "epochs": 1, "steps": ...}, "epochs", "give its steps"),
    ({"elasticity": "restart", "deadline": "now+3m", "or_nothing": True}, "or_nothing", "once it runs"),
    ({"elasticity": "restart", "steps": 0}, "steps", "not between 1"),
    ({"elasticity": "restart", "steps": ..., "until": "loss<=1"}, "until", "ends when its script does"),
    (
        {"elasticity": "restart", "steps": ..., "deadline": "now+3m"},
        "estimate",
        "needs its steps, or an estimate",
    ),
    ({"elasticity": "restart", "steps": ..., "estimate": "long"}, "estimate", "is not a duration"),
    ({"elasticity": "restart", "steps": ..., "estimate": -1}, "estimate", "more than 0"),
    ({"seed": -1}, "seed", "between"),
    ({"tenant": ""}, "tenant", "leave it out"),
    ({"tenant": "the lab"}, "tenant", "letters, digits"),
    ({"kind": []}, "kind", "an empty list names no kind"),
    ({"kind": "a100,,v100"}, "kind", "cannot be a kind of device"),
    ({"kind": ["a100", "any"]}, "kind", "`any` has every kind; name it alone"),
    ({"kind": [f"k{number}" for number in range(21)]}, "kind", "21 are named, more than 20"),
    ({"kind": "a100=2.5,v100"}, "kind", "'a100=2.5' cannot be a kind of device"),
    ({"kind": "-a100"}, "kind", "begins with a letter or digit; name one that `swell nodes` lists"),
    ({"kind": "a" * 81}, "kind", "at most 80"),
    ({"stop_on_nan": "yes"}, "stop_on_nan", "'yes' is not true or false"),
    (
        {"elasticity": "restart", "steps": ..., "hold_after_trial": True},
        "hold_after_trial",
        "a restart job has no trial run",
    ),
    ({"elasticity": "restart", "steps": ..., "stop_on_nan": True}, "stop_on_nan", "stop in the script"),
    ({"metric": "top 1"}, "metric", "such as accuracy"),
    ({"metric": "x" * 64}, "metric", "at most 63"),
    ({"metric_goes": "up"}, "metric_goes", "give metric"),
    (
        {"metric": "accuracy", "metric_goes": "sideways"},
        "metric_goes",
        "'sideways' is not known; choose from down, up",
    ),
    (
        {"metric": "accuracy", "metric_goes": "down", "until": "accuracy>=0.9"},
        "metric_goes",
        "contradicts until, which is accuracy>=0.9",
    ),
    ({"checkpoint_interval": "often"}, "checkpoint_interval", "not a duration"),
    (
        {"checkpoint_interval": 0.5},
        "checkpoint_interval",
        "not between 1s and 1d; write a duration such as 10m",
    ),
    ({"memory": "much"}, "memory", "write 500MB or 4GiB"),
    ({"memory": 4}, "memory", "not between 16 MiB and 1024 TiB"),
    ({"log_limit": "1kB"}, "log_limit", "not between 1 MiB and 1 TiB"),
    ({"memory": 1.5}, "memory", "1.5 is not a whole number or a text"),
    ({"code": "dead"}, "code", "snapshot, live"),
    ({"env": {"1A": "x"}}, "env", "letters, digits and _"),
    ({"env": {"A": "x\0"}}, "env", "NUL"),
    ({"env": {"A": True}}, "env", "a value in {'A': True} is not a"),
    ({"env": "A=1"}, "env", "'A=1' is not a mapping (NAME: VALUE); correct it"),
    ({"tags": "a"}, "tags", "'a' is not a list ([..., ...]); correct it"),
    ({"env": {"SWELL_TOKEN": "x"}}, "env", "set by Swell"),
    ({"env": {"OMP_NUM_THREADS": 2}}, "env", "set it for `swell up`"),
    ({"env": {"NOT_SET_ANYWHERE": None}}, "env", "NOT_SET_ANYWHERE=VALUE"),
    ({"python": "no/such/python"}, "python", "is not a program"),
    ({"python": "no-such-python"}, "python", "on the PATH"),
    ({"needs": ("/data\0",)}, "needs", "holds a NUL"),
    ({"image": "--privileged"}, "image", "is not the name of an image"),
    ({"image": "img:1", "python": sys.executable}, "python", "the python3 of its image; remove it"),
    ({"on_drift": "cry"}, "on_drift", "warn, heal, fail"),
    ({"on_difference": "cry"}, "on_difference", "hold, roll_back"),
    ({"elasticity": "restart", "steps": ..., "on_drift": "heal"}, "on_drift", "elasticity live"),
    ({"stepz": 1}, "stepz", "no such field; did you mean steps?"),
    ({"colour": 8}, "colour", "no such field; `swell submit --help-all` has an option for each"),
    ({"elasticity": "restart", "steps": ..., "estimate": 10**400}, "estimate", "at most 100 years"),
    ({"deadline": 10**400}, "deadline", "not a time"),
    ({"workers": 10**4299}, "workers", "MIN:MAX"),
    ({"args": [[[[[[[]]]]]]]}, "args", "a value in [[[[...]]]] is not a number or a text"),
]


@pytest.mark.parametrize(("fields", "field", "text"), BROKEN, ids=lambda value: str(value)[:40])
def test_a_broken_rule_names_the_field_and_the_remedy(
    script: Path, fields: dict[str, Any], field: str, text: str
) -> None:
    with pytest.raises(InvalidField) as caught:
        spec(script, **fields)
    assert caught.value.field == field
    assert str(caught.value).startswith(f"{field}: ")
    assert text in str(caught.value)


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (os.mkfifo, "a named pipe"),
        (make_socket, "a socket"),
        (lambda path: path.symlink_to("/dev/zero"), "a device"),
        (lambda path: path.mkdir(), "a folder"),
    ],
)
def test_a_script_is_a_file(tmp_path: Path, make: Callable[[Path], None], kind: str) -> None:
    """To open a named pipe would wait for a writer; a device may act on being opened."""
    path = tmp_path / "train.py"
    make(path)
    with pytest.raises(InvalidField, match=f"^script: .* is {kind}, not a file; give the path"):
        spec(path)


def test_a_script_has_a_size(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.touch()
    os.truncate(path, MAX_SCRIPT_BYTES)
    link = tmp_path / "link.py"
    link.symlink_to(path)
    assert spec(link).entry == str(link)
    os.truncate(path, 1 << 40)
    with pytest.raises(InvalidField, match=r"^script: .* has 1,099,511,627,776 bytes, more than"):
        spec(path)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(Submission.__struct_encode_fields__), ANYTHING, max_size=6))
def test_any_fields_make_a_job_or_a_named_error(fields: dict[str, Any]) -> None:
    try:
        made = parse({"entry": "a.b:c", "global_batch": 8} | fields).to_spec(NOW_S, Path.cwd())
    except InvalidField as error:
        assert error.field in Submission.__struct_encode_fields__
        assert str(error).startswith(f"{error.field}: ")
    else:
        assert made.global_batch >= made.min_workers >= 1 or not made.global_batch


def test_a_job_that_leaves_out_its_batch_and_its_end_has_those_of_its_script(script: Path) -> None:
    own = ScriptNumbers(batch=48, epochs=30)
    left_out = parse({"script": "train.py", "until": "accuracy>=0.9"}).to_spec(NOW_S, script.parent)
    assert (left_out.global_batch, left_out.end.epochs) == (0, None)
    whole = left_out.completed(own)
    assert (whole.global_batch, whole.end.epochs, whole.end.target) == (48, 30.0, left_out.end.target)
    stated = spec(script)
    assert stated.completed(own) == stated


def test_variables_and_an_interpreter_are_found_where_the_submitter_is(
    script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOOD", "calm")
    made = spec(script, env={"MOOD": None, "LEVEL": 3, "EMPTY": ""}, python=Path(sys.executable).name)
    assert made.env == (("EMPTY", ""), ("LEVEL", "3"), ("MOOD", "calm"))
    assert Path(made.python).is_absolute() and os.access(made.python, os.X_OK)
    assert spec(script, needs=("/no/such", "/data")).needs == ("/no/such", "/data")
    assert spec(script, image="registry.example:5000/lab/torch@sha256:0").image.endswith("sha256:0")
    with pytest.raises(InvalidField, match="MOOD has no value"):
        parse(
            {"entry": "a.b:c", "global_batch": 8, "steps": 1, "workdir": "/", "env": {"MOOD": None}}
        ).to_spec(NOW_S)


# ---------------------------------------------------------------- job files
def write(script: Path, text: str) -> Path:
    path = script.with_name("job.yaml")
    path.write_text(text)
    return path


def test_plain_values_are_what_they_look_like(script: Path) -> None:
    path = write(
        script,
        "name: on\nscript: train.py\nglobal_batch: 64\nworkers: 1:8\nsteps: 10\n"
        + "deadline: 2040-01-31T18:00:00+00:00\nargs: [--lr, 1e-3, yes, 0x10, 12:30:00, 010]\n",
    )
    (job,) = load(path)
    made = job.to_spec(NOW_S)
    assert (made.name, made.min_workers, made.max_workers) == ("on", 1, 8)
    assert made.deadline_s == datetime(2040, 1, 31, 18, tzinfo=UTC).timestamp()
    assert made.args == ("--lr", "0.001", "yes", "0x10", "12:30:00", "10")


def test_a_file_may_hold_several_jobs_relative_to_itself(
    script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/")
    path = write(
        script,
        "- &first {name: a, script: train.py, global_batch: 8, steps: 1}\n"
        "- {name: b, script: train.py, global_batch: 8, epochs: .5}\n",
    )
    assert [job.to_spec(NOW_S).name for job in load(path)] == ["a", "b"]
    assert load(path)[0].to_spec(NOW_S).entry == str(script)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("name: a\nargs: [1, 2\nsteps: 3\n", 3, "malformed YAML"),
        ("name: a\n\tsteps: 3\n", 2, "malformed YAML"),
        ("name: 'a\n", 2, "malformed YAML"),
        ("name: a\n---\nname: b\n", 2, "malformed YAML"),
        ("name: a\nglobal_batch: 8\nstepz: 3\n", 3, "stepz: no such field; did you mean steps?"),
        ("name: a\nglobal_batch: 8\nsteps: 3\nglobal_batch: 9\n", 4, "global_batch: given twice"),
        ("script: train.py\nglobal_batch: 8\nsteps: many\n", 3, "steps: 'many' is not a whole number"),
        ("script: train.py\nglobal_batch: 8\nsteps: 1\n\nworkers: 8:4\n", 5, "workers: MIN 8"),
        ("- {entry: 'a:b', global_batch: 8, steps: 1}\n-\n  script: x.py\n  global_batch: 8\n  steps: 1\n",
         3, "x.py cannot be read"),
        ("- 3\n", 1, "a job must be a mapping"),
        ("text\n", 1, "a job must be a mapping"),
        ("name: !!python/object/apply:os.system [ls]\n", 1, "plain values only"),
        ("{[1]: 2}\n", 1, "plain values only"),
        ("steps: !!int x\n", 1, "plain values only"),
    ],
)  # fmt: skip
def test_errors_name_the_line(script: Path, text: str, line: int, message: str) -> None:
    path = write(script, text)
    with pytest.raises(InvalidJob) as caught:
        for job in load(path):
            job.to_spec(NOW_S)
    assert str(caught.value).startswith(f"{path}, line {line}: ")
    assert message in str(caught.value)


@pytest.mark.parametrize("text", ["", "# nothing\n", "[]"])
def test_a_file_without_a_job_says_so(script: Path, text: str) -> None:
    with pytest.raises(InvalidJob, match="holds no job"):
        load(write(script, text))


def test_a_file_that_cannot_be_read_says_so(tmp_path: Path) -> None:
    for path in (tmp_path / "absent.yaml", tmp_path):
        with pytest.raises(InvalidJob, match="cannot be read"):
            load(path)
    (tmp_path / "latin.yaml").write_bytes(b"name: gr\xf6sse\n")
    with pytest.raises(InvalidJob, match="UTF-8"):
        load(tmp_path / "latin.yaml")


def test_a_restart_job_needs_no_global_batch(script: Path) -> None:
    made = parse({"script": str(script), "elasticity": "restart", "workers": "2:4"}).to_spec(
        NOW_S, script.parent
    )
    assert (made.global_batch, made.min_workers, made.max_workers) == (1, 2, 4)
    given = parse({"script": str(script), "elasticity": "restart", "global_batch": 1, "workers": 2})
    assert given.to_spec(NOW_S, script.parent).min_workers == 2
    with pytest.raises(InvalidField, match="global_batch: 0 is not between"):
        parse({"script": str(script), "elasticity": "restart", "global_batch": 0}).to_spec(
            NOW_S, script.parent
        )

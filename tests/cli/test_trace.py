"""`swell trace`, as a user runs it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from swell.cli import main
from swell.sim.traces.read import read

Run = Callable[..., subprocess.CompletedProcess[str]]

TRACE = """\
submit_s,id,num_devices,duration_s,model
0,a,1,3600,
60,b,8,7200,
90,c,2,-5,
120,d,0,100,
"""


@pytest.fixture
def swell(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """The program in this process, in a folder with a small trace."""
    monkeypatch.chdir(tmp_path)
    Path("log.csv").write_text(TRACE)

    def run(*words: object) -> subprocess.CompletedProcess[str]:
        status = main.run(["trace", *map(str, words)])
        out, err = capsys.readouterr()
        return subprocess.CompletedProcess([str(word) for word in words], status, out, err)

    return run


def test_info_says_what_is_there_and_what_was_skipped(swell: Run) -> None:
    done = swell("info", "log.csv")
    assert done.returncode == 0
    lines = [line.split(maxsplit=1) for line in done.stdout.splitlines() if line]
    told = {line[0]: line[1] for line in lines}
    assert told["format"] == "plain (plain CSV)"
    assert told["jobs"] == "2, the first at 0 s, the last 60 s later"
    assert told["devices"] == "1: 1, 8: 1"
    assert told["work"] == "17 device-hours, 1,020.0 devices busy over the time of arrivals"
    assert told["deadlines"] == "none"
    assert "malformed: duration is negative  line 4: -5" in done.stdout
    assert "asks for no device               line 5" in done.stdout


def test_a_trace_is_filled_and_written(swell: Run) -> None:
    done = swell("convert", "log.csv", "full.csv", "--profiles", "hu", "--seed", 1)
    assert done.stdout.splitlines() == [
        "log.csv: plain, 2 jobs, 2 lines skipped",
        "  2 jobs: deadline = submission + U[0.5, 1.5] x duration",
        "  2 jobs: model and batch drawn from profiles 'hu'",
        "  2 jobs: steps = duration x steps/s at the size asked for",
        "full.csv: 2 jobs",
    ]
    small, large = read(Path("full.csv")).jobs
    assert (small.num_steps, large.num_steps) == (3600, round(7200 * 8 * 0.8**3))
    assert small.deadline_s is not None
    assert 1800 <= small.deadline_s <= 5400


def test_what_cannot_be_filled_is_left_out_by_name(swell: Run) -> None:
    Path("models.csv").write_text(TRACE + "130,e,1,10,bert\n140,f,1,,\n")
    Path("nets").mkdir()
    Path("nets/AlexNet.csv").write_text("global_batch_size,1,2,4,8\n1024,1,2,4,8\n")
    done = swell("convert", "models.csv", "full.csv", "--profiles", "nets", "--unknown", "drop")
    assert "  left out: 1 job: profiles 'nets' have no model 'bert'; they have AlexNet" in done.stdout
    assert (
        "  left out: 1 job: tells neither its duration nor its steps, nor do profiles 'nets' (f)"
        in done.stdout
    )
    assert done.stdout.endswith("full.csv: 2 jobs\n")


@pytest.mark.parametrize("law", ["poisson", "bursty", "diurnal"])
def test_a_generated_trace_is_the_same_again(law: str, swell: Run) -> None:
    for name in ("one.csv", "two.csv"):
        done = swell("generate", name, "--jobs", 20, "--arrivals", law, "--seed", 7)
        assert done.stdout == f"{name}: 20 jobs\n"
    assert Path("one.csv").read_text() == Path("two.csv").read_text()
    assert len(read(Path("one.csv"), is_strict=True).jobs) == 20


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("info", "none.csv"), "cannot read none.csv: No such file or directory"),
        (("info", "log.csv", "--strict"), "log.csv, line 4: duration is negative: -5; mend the line"),
        (("info", "log.csv", "--format", "x"), "there is no format 'x'; choose one of plain"),
        (("convert", "log.csv", "o.csv", "--profiles", "x"), "there are no profiles 'x'; name a folder"),
        (
            ("convert", "log.csv", "nowhere/o.csv"),
            "OUT: there is no folder nowhere to write o.csv to; create it first",
        ),
        (("convert", "log.csv", "."), "OUT: . is a folder; name a file"),
        (("generate", "nowhere/o.csv"), "OUT: there is no folder nowhere to write o.csv to; create it first"),
        (
            ("convert", "log.csv", "o.csv", "--deadlines", "x"),
            "--deadlines: 'x' is not known; choose one of missing, all, none",
        ),
        (
            ("convert", "log.csv", "o.csv", "--tightness", "x"),
            "--tightness: 'x' is no range; write LOW:HIGH, as 0.5:1.5",
        ),
        (("convert", "log.csv", "o.csv", "--soft", "2"), "--soft is 2; it must be between 0 and 1"),
        (("generate", "o.csv", "--arrivals", "x"), "--arrivals is 'x'; choose one of poisson"),
        (("generate", "o.csv", "--devices", "x"), "--devices is 'x'; write NUMBER:WEIGHT,..."),
        (("generate", "o.csv", "--median", "x"), "--median: 'x' is not a duration; write 90s"),
        (("generate", "o.csv", "--jobs", "0"), "a trace needs at least 1 job"),
        (("generate", "o.csv", "--per-hour", "0"), "the rate of arrivals must be more than 0 jobs an hour"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(words: tuple[str, ...], complaint: str, swell: Run) -> None:
    done = swell(*words)
    assert done.returncode == 2
    assert done.stderr.startswith("swell: ")
    assert done.stderr.count("\n") == 1
    assert complaint in done.stderr
    assert not Path("o.csv").exists()


def test_a_pipe_is_written_to_and_not_replaced(swell: Run) -> None:
    os.mkfifo("pipe")
    with ThreadPoolExecutor(1) as beside:
        read = beside.submit(Path("pipe").read_text)
        assert swell("generate", "pipe", "--jobs", "3").returncode == 0
        assert len(read.result(timeout=30).splitlines()) == 4
    assert Path("pipe").is_fifo()
    assert (
        swell("generate", "plain.csv", "--jobs", "3").returncode == 0 and not Path("plain.csv.part").exists()
    )

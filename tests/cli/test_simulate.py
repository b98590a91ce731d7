"""`swell simulate`, as a user runs it."""

from __future__ import annotations

import csv
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from swell.cli import main

Run = Callable[..., subprocess.CompletedProcess[str]]

#: One job alone, one with no time to spare, one that can wait.
TRACE = """\
submit_s,id,num_devices,duration_s,deadline_s
0,early,4,3600,9000
600,hopeless,4,3600,700
700,late,8,7200,40000
"""
TWO_ON_ONE_NODE = ("log.csv", "--cluster", "1x8", "--profiles", "law")


@pytest.fixture
def swell(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """The program in this process, in a folder with a small trace."""
    monkeypatch.chdir(tmp_path)
    Path("log.csv").write_text(TRACE)

    def run(*words: object) -> subprocess.CompletedProcess[str]:
        status = main.run(["simulate", *map(str, words)])
        out, err = capsys.readouterr()
        return subprocess.CompletedProcess(words, status, out, err)

    return run


def test_policies_stand_side_by_side(swell: Run) -> None:
    done = swell(*TWO_ON_ONE_NODE, "--policy", "elasticflow,fifo")
    assert done.returncode == 0, done.stderr
    title, _, headings, *rows = [line for line in done.stdout.splitlines() if not line.startswith("  ")]
    assert title.startswith("log.csv: 3 jobs on 1x8 devices (law")
    assert headings.split()[:5] == ["POLICY", "MET", "ADM", "REJ", "LATE"]
    assert rows[0].split()[:5] == ["elasticflow", "0.667", "2", "1", "0"]
    assert rows[1].split()[:5] == ["fifo", "0.667", "3", "0", "1"]


def test_json_has_an_object_a_policy_and_comes_out_again_to_the_byte(swell: Run) -> None:
    words = (*TWO_ON_ONE_NODE, "--policy", "elasticflow,equal_share", "--seed", 3, "--noise", 0.1)
    assert swell(*words, "--json", "one.json").returncode == 0
    assert swell(*words, "--json", "two.json").returncode == 0
    assert Path("one.json").read_bytes() == Path("two.json").read_bytes()
    found = json.loads(Path("one.json").read_text())
    assert [result["policy"] for result in found] == ["elasticflow", "equal_share"]
    assert found[0]["cluster"] == {"nodes": 1, "devices_per_node": 8, "devices": 8}
    assert found[0]["truth"]["resize_cost"] == "changed" and found[0]["truth"]["seed"] == 3
    assert found[0]["metrics"]["admitted_late"] == 0


def test_what_became_of_each_job_and_pictures(swell: Run) -> None:
    assert swell(*TWO_ON_ONE_NODE, "--jobs", "jobs.csv", "--plot", "out").returncode == 0
    rows = {row["id"]: row for row in csv.DictReader(Path("jobs.csv").read_text().splitlines())}
    phases = [rows[name]["phase"] for name in ("early", "hopeless", "late")]
    assert phases == ["succeeded", "rejected", "succeeded"]
    assert float(rows["hopeless"]["counter_offer_s"]) > 700
    drawn = {file.name for file in Path("out").iterdir()}
    assert drawn == {
        "devices.png",
        "admissions.png",
        "completion.png",
        "slack.png",
        "timeline-elasticflow.png",
    }


def test_a_job_that_is_too_large_for_the_cluster_is_refused_and_counted(swell: Run) -> None:
    Path("tables").mkdir()
    Path("tables/large.csv").write_text("global_batch_size,8,16\n64,,5.0\n")
    Path("log.csv").write_text("submit_s,id,num_devices,duration_s,model,global_batch\n0,a,16,60,large,64\n")
    words = ("log.csv", "--cluster", "1x8", "--profiles", "tables", "--deadlines", "none")
    found = json.loads(swell(*words, "--jobs", "jobs.csv", "--json", "-").stdout)
    assert found[0]["metrics"]["rejected"] == 1
    (row,) = csv.DictReader(Path("jobs.csv").read_text().splitlines())
    assert row["why"] == "needs 16 devices or more, and the cluster has 8"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("log.csv", "--cluster", "big"), "--cluster is 'big'; write NODESxDEVICES, as 16x8"),
        (("log.csv", "--cluster", "0x8"), "a cluster of 0x8 has no devices; both must be at least 1"),
        (("log.csv", "--cluster", "1x8", "--policy", "best"), "there is no policy 'best'; choose one of"),
        (("log.csv", "--cluster", "1x8", "--resize-cost", "much"), "'much' is no resize cost; give one of"),
        (("log.csv", "--cluster", "1x8", "--noise", "-1"), "noise_share is -1.0; it must be within 0 and 2"),
        (("none.csv", "--cluster", "1x8"), "none.csv"),
    ],
)
def test_wrong_options_are_named_with_the_remedy(swell: Run, words: tuple[str, ...], text: str) -> None:
    done = swell(*words)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.count("\n") == 1 and text in done.stderr


def test_an_empty_trace_is_refused(swell: Run) -> None:
    Path("empty.csv").write_text("submit_s,id,num_devices,duration_s\n")
    done = swell("empty.csv", "--cluster", "1x8")
    assert done.returncode == 1
    assert done.stderr == "swell: empty.csv holds no job that can be simulated; see `swell trace info`\n"

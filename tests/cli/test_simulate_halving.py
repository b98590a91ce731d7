"""`swell simulate --halving`: the jobs of a trace as the trials of one search."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from tests.cli.test_simulate import Run, swell  # noqa: F401 - a fixture

HEADING = "id,submit_s,model,global_batch,num_steps,num_devices,loss_curve"


def write(curves: list[str]) -> None:
    rows = [f"t{number},0,resnet50,256,9000,1,{curve}" for number, curve in enumerate(curves)]
    Path("trials.csv").write_text("\n".join([HEADING, *rows, ""]))


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["bftrainer", "fifo"])
def test_worse_trials_stop_and_the_best_one_does_not(swell: Run, policy: str) -> None:  # noqa: F811
    write([f"exp:2.3:{limit:.2f}:900" for limit in (0.3, 0.2, 0.5, 0.1, 0.4, 0.6)])
    words = ("trials.csv", "--cluster", "1x2", "--policy", policy, "--jobs", "out.csv")
    plain = swell(*words)
    assert plain.returncode == 0, plain.stderr
    long_s = {
        row["id"]: float(row["end_s"]) for row in csv.DictReader(Path("out.csv").read_text().splitlines())
    }
    done = swell(*words, "--halving", "1000:3")
    assert done.returncode == 0, done.stderr
    assert "trials compared at 1000 steps and every 3 times as many" in done.stdout
    rows = {row["id"]: row for row in csv.DictReader(Path("out.csv").read_text().splitlines())}
    early = {job for job, row in rows.items() if "stopped early: rank" in row["why"]}
    assert "t3" not in early and len(early) >= 3
    assert max(float(row["end_s"]) for row in rows.values()) < max(long_s.values())
    again = swell(*words, "--halving", "1000:3")
    assert again.stdout == done.stdout


@pytest.mark.parametrize(
    ("curves", "halving", "text"),
    [
        (["exp:1:0:9"] * 2, "x", "write STEPS or STEPS:FACTOR"),
        (["exp:1:0:9"] * 2, "1000:1", "a reduction factor is above 1"),
        (["exp:1:0:9"] * 2, "0", "more than 0 steps"),
        (["exp:1:0:9"], "1000", "this one has a single job"),
        (["exp:1:0:9", ""], "1000", "1 of 2 jobs have none; add the column loss_curve"),
    ],
)
def test_what_is_wrong_is_said(swell: Run, curves: list[str], halving: str, text: str) -> None:  # noqa: F811
    write(curves)
    done = swell("trials.csv", "--cluster", "1x2", "--halving", halving)
    assert done.returncode != 0 and text in done.stderr

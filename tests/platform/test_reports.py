"""Scripts without swell.train tell what they measure: by a function, or by lines of their output."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.platform.program import Program

BY_FUNCTION = """
import pathlib, time
import swell

swell.report(loss=0.75, accuracy=0.5)
while not pathlib.Path("gate").exists():
    time.sleep(0.02)
for number in range(1000):
    swell.report(accuracy=number / 1000)
swell.report(loss=float("nan"))
"""

BY_LINE = """
import json, os, pathlib, sys, time

print(json.dumps({"config": "small", "step": 0}))
sys.stderr.write("\\r 10%|#    | 1/10 ")
os.write(1, b'{"step": 1, "loss": 0.75, "accu')
os.write(1, b'racy": 0.5}\\n')
print("accuracy is not a report, nor is", {"accuracy": 1.0}, flush=True)
while not pathlib.Path("gate").exists():
    time.sleep(0.02)
for number in range(1000):
    print(json.dumps({"step": number, "accuracy": number / 1000}))
print(json.dumps({"loss": float("nan"), "accuracy": 0.999}), end="")
"""


@pytest.mark.slow
@pytest.mark.parametrize("text", [BY_FUNCTION, BY_LINE], ids=["function", "line"])
def test_what_a_script_reports_is_shown_while_it_runs_and_when_it_has_ended(
    swell: Program, tmp_path: Path, text: str
) -> None:
    script = tmp_path / "tells.py"
    script.write_text(text)
    options = ("--elasticity", "restart", "--workers", 1, "--metric", "accuracy", "--metric-goes", "up")
    job = swell.submit(tmp_path, *options, script=script)
    view = swell.await_job(job, lambda job: bool(job.metrics), "a report")
    assert (view.loss, view.metrics["accuracy"], view.phase) == (0.75, 0.5, "running")
    assert (view.metric, view.metric_rises) == ("accuracy", True)
    (tmp_path / "gate").touch()
    ended = swell.await_end(job)
    assert (str(ended.loss), ended.metrics["accuracy"]) == ("nan", 0.999)
    stories = swell.ok("explain", job)
    assert stories.count("the script reports loss as nan") == 1

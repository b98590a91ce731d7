"""The whole demo, as `make demo` runs it. Minutes long: `make test-soak`."""

from __future__ import annotations

import json
import os
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.started_program import run_program

LIMIT_S = 300.0


@pytest.mark.soak
@pytest.mark.timeout(LIMIT_S + 30)
def test_the_demo_keeps_its_promises(tmp_path: Path) -> None:
    plain = {name: value for name, value in os.environ.items() if not name.startswith("SWELL_")}
    out = tmp_path / "out.json"
    done = run_program("demo", "--json", out, environ=plain, timeout_s=LIMIT_S, folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^Live page.*: http://127\.0\.0\.1:\d+/", done.stdout, re.MULTILINE)
    assert "LOSS is of held-out data" in done.stdout
    check_jobs(json.loads(out.read_text()))


def check_jobs(jobs: list[dict[str, Any]]) -> None:
    assert len(jobs) >= 6
    refused = [job for job in jobs if job["phase"] == "rejected"]
    assert refused
    assert all(job["counter_offer_s"] > job["deadline_s"] for job in refused)
    trained = [job for job in jobs if job not in refused]
    assert {job["phase"] for job in trained} == {"succeeded"}
    assert {job["job_class"] for job in trained} == {"strict", "soft", "best_effort"}
    assert all(job["kept"] for job in trained if job["class"] == "strict")
    assert all(job["metrics"] for job in trained)
    assert all(len(set(job["pids"])) >= max(size for _, size in job["sizes"]) for job in trained)

    resized = [job for job in trained if job["resizes"]]
    assert sum(job["resizes"] for job in resized) >= 4
    assert all(job["resize_pause_s"] > 0 for job in resized)
    changes = [change for job in resized for change in pairwise(size for _, size in job["sizes"])]
    assert any(0 < before < after for before, after in changes), "somebody grew"
    assert any(before > after > 0 for before, after in changes), "somebody shrank"

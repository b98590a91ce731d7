"""The demo's jobs on four nodes of Slurm all come to their end.

`pytest -m soak -s tests/slurm/test_slurm_demo.py` prints which promises were kept, and why others were not.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from tests.eventually import eventually
from tests.platform.program import Program

from swell.demo.jobs import CAST, PACE_PER_S

UP = (
    "up", "--engine", "slurm", "--partition", "scav", "--min-nodes", "4", "--max-nodes", "4",
    "--slice-devices", f"paced:2@{PACE_PER_S:g}", "--listen", "127.0.0.1:0",
    "--preload", "sklearn.datasets",
)  # fmt: skip
WITHIN_S = 300.0


@pytest.fixture
def num_nodes() -> int:
    return 4


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_the_demo_comes_to_its_end_on_four_nodes(program: Program, tmp_path: Path) -> None:
    begun_s = time.monotonic()
    program.ok(*UP)
    eventually(lambda: len(program.json("nodes")["nodes"]) == 4 or None, "four slices", WITHIN_S)
    print(f"from `swell up` to four nodes: {time.monotonic() - begun_s:.1f} s")
    found = tmp_path / "found.json"
    words = ("--state", program.state, "--json", found)
    print(program("demo", *words, within_s=600.0).stdout)
    jobs = json.loads(found.read_text())
    for job in jobs:
        if job["kept"] is False:
            print(program.ok("explain", job["id"]))
    assert len(jobs) == len(CAST) + 1  # one is refused, and submitted again
    assert {job["phase"] for job in jobs} == {"succeeded", "rejected"}

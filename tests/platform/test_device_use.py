"""What jobs use of the cores that they hold, and what their owners are told when that is nothing."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.platform.program import Program, job_id, kill

from swell.api.client import connect
from swell.model.event import IDLE

#: Does nothing until there is a file `work`, and computes then until there is a file `rest`.
COMPUTES_LATER = """
import os, time
while not os.path.exists("work"): time.sleep(0.05)
while not os.path.exists("rest"): pass
time.sleep(600)
"""


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    program = Program(tmp_path_factory.mktemp("use") / "state")
    program.ok("up", "--devices", "cpu:2", "--set", "idle_s=15")
    yield program
    program("down")
    assert program.processes() == set()


@pytest.mark.slow
def test_its_owner_is_told_of_idle_devices_and_what_was_used_is_kept(own: Program, tmp_path: Path) -> None:
    """Over a kill of the daemon, the end of the job, and pruning."""
    command = ("--devices", 2, "--time", "10m", "--workdir", tmp_path, "--no-wait", "--")
    job = job_id(own.ok("submit", *command, sys.executable, "-c", COMPUTES_LATER))
    idle = own.await_job(job, lambda view: view.idle_since_s is not None, "the warning")
    assert idle.warnings[IDLE].startswith("2 of its 2 devices computed for less than 5% of the last 15 s")
    assert "idle devices: 2 of its 2" in own.ok("show", job)

    begun_s = time.monotonic()
    (tmp_path / "work").touch()
    used = own.await_job(job, lambda view: view.idle_since_s is None and bool(view.used), "use")
    assert IDLE not in used.warnings
    own.await_job(job, lambda view: view.reading is not None and 0.02 < view.reading.use <= 1.0, "a reading")
    (node,) = own.json("nodes")["nodes"]
    assert set(node["readings"]) == set(node["devices"]) == set(used.devices)
    with connect(own.state) as client:
        told = client.prometheus().decode()
    assert all(
        f'swell_device_use_ratio{{device="{name}",job_id="{job}",node="node0"}} 0.' in told
        for name in used.devices
    )
    assert own.daemon_pid is not None
    kill(own.daemon_pid)
    own.ok("up")
    own.await_job(job, lambda view: view.used[-1][1] > 5.0, "more use")
    (tmp_path / "rest").touch()
    most_s = time.monotonic() - begun_s
    assert "of device time" in own.ok("show", job)

    own.ok("cancel", job)
    ended = own.await_end(job, "cancelled")
    used_h = ended.used[-1][1] / 3600.0
    assert 5.0 / 3600.0 < used_h < (most_s + 10.0) / 3600.0
    before = own.json("admin", "usage", "--by", "week")
    assert (
        before["used_hours"] == pytest.approx(used_h) and before["measured_hours"] == before["device_hours"]
    )
    own.ok("admin", "prune", job)
    after = own.json("admin", "usage", "--by", "week")
    assert (after["rows"], len(after["rows"])) == (before["rows"], 1)

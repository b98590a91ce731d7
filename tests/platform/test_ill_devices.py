"""A device that falls ill while a job trains on it: real processes, and an agent that finds a fault."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.eventually import eventually
from tests.platform.program import Program, read_diary

#: In the agent alone. A core has no driver that could tell of faults: they are read from a file.
READS_FAULTS = """
import json, os, sys
if any("swell.executors.local.agent" in word for word in sys.orig_argv):
    import msgspec
    from swell.executors.local.agent import device_use
    from swell.model.usage import DeviceReading

    def tick(self, now_s, bindings, tick=device_use.DeviceUse.tick):
        path, told = os.environ["FAULTS"], tick(self, now_s, bindings)
        faults = json.load(open(path)) if os.path.exists(path) else {}
        return told | {name: DeviceReading(use=0.0, fault=why) for name, why in faults.items()}

    device_use.DeviceUse.tick = tick
"""
ENDLESS = 10**6


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Program]:
    (tmp_path / "sitecustomize.py").write_text(READS_FAULTS)
    environ = {"PYTHONPATH": str(tmp_path), "FAULTS": str(tmp_path / "faults")}
    program = Program(tmp_path / "state", environ)
    program.ok("up", "--devices", "paced:2x2@200")
    yield program
    program("down")
    assert program.processes() == set()


@pytest.mark.slow
def test_a_job_goes_on_elsewhere_without_a_lost_step_and_the_node_comes_back_by_a_passed_test(
    own: Program, tmp_path: Path
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    job = own.submit(work, "--epochs", ENDLESS, "--workers", 2)
    own.await_training(job, 2, work)
    home = own.job(job).devices[0].split("/")[0]
    draft = tmp_path / "draft"
    draft.write_text(json.dumps({f"{home}/1": "it has fallen off the bus"}))
    draft.rename(tmp_path / "faults")
    own.await_job(job, lambda view: not any(one.startswith(home) for one in view.devices), "another node")
    own.await_steps(work, 20)
    assert f"{home}: is ill and gets no more work (device {home}/1: it has fallen off the bus)" in own.ok(
        "nodes"
    )
    steps = [entry.step for entry in read_diary(work)]
    assert steps == list(range(1, len(steps) + 1)), "no step was made twice or left out"
    assert own.job(job).phase == "running" and own.job(job).resizes >= 1

    (tmp_path / "faults").unlink()
    own.ok("nodes", "test", home)
    (ill,) = [node for node in own.json("nodes")["nodes"] if node["name"] == home]
    assert ill["leaving"] is None and [one.get("fault", "") for one in ill["tests"]] == ["", ""]
    own.finish(job, work)


@pytest.mark.slow
def test_a_test_that_is_under_way_ends_with_the_platform(own: Program) -> None:
    own.ok("nodes", "drain", "node1")
    before = len(own.processes())
    running = own.begin("nodes", "test", "node1")
    eventually(lambda: len(own.processes()) >= before + 3, "the processes of the test")
    own.ok("down")
    eventually(lambda: own.processes() == set(), "their end")
    running.kill()
    running.wait()

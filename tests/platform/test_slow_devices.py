"""A device at half the speed of its neighbours, which real gangs find and later jobs are spared."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.eventually import eventually
from tests.platform.program import ENDLESS, Program

from swell.core.slow_devices import NUM_STEPS

SLOW = "node0/1"
#: In all processes that read which devices there are.
SLOWS_ONE = f"""
import sys
if any("swell" in word for word in sys.orig_argv):
    import msgspec
    from swell.executors.local import devices

    def parse_devices(*words, parse=devices.parse_devices, **more):
        nodes = parse(*words, **more)
        for node in nodes:
            for name in node.bindings.keys() & {{"{SLOW}"}}:
                one = node.bindings[name]
                node.bindings[name] = msgspec.structs.replace(one, pace_per_s=one.pace_per_s / 2)
        return nodes

    devices.parse_devices = parse_devices
"""


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Program]:
    (tmp_path / "sitecustomize.py").write_text(SLOWS_ONE)
    program = Program(tmp_path / "state", {"PYTHONPATH": str(tmp_path)})
    program.ok("up", "--devices", "paced:4@1280")
    yield program
    program("down")
    assert program.processes() == set()


@pytest.mark.slow
def test_a_device_at_half_speed_is_found_by_two_jobs_and_a_third_gets_others(
    own: Program, tmp_path: Path
) -> None:
    def told() -> dict[str, str]:
        (node,) = own.json("nodes")["nodes"]
        return node["slow"]  # type: ignore[no-any-return]

    def train(name: str) -> tuple[str, Path]:
        folder = tmp_path / name
        folder.mkdir()
        job = own.submit(folder, "--epochs", ENDLESS, "--workers", 2)
        own.await_training(job, 2, folder)
        return job, folder

    first, folder = train("first")
    assert SLOW in own.job(first).devices
    own.await_steps(folder, 2 * NUM_STEPS)
    own.finish(first, folder)
    assert told() == {}, "one job is not enough"

    second, folder = train("second")
    assert SLOW in own.job(second).devices
    eventually(told, f"{SLOW} in the list of nodes")
    assert set(told()) == {SLOW} and f"device {SLOW} takes" in own.ok("nodes")
    assert "jobs get other devices first" in own.ok("explain", second)
    own.finish(second, folder)

    third, folder = train("third")
    assert SLOW not in own.job(third).devices
    own.finish(third, folder)

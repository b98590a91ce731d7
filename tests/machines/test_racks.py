"""Machines of two racks: a job that needs two of them gets two of one rack."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from tests.machines.namespaces import Network, why_not
from tests.machines.site import Site, swell

import swell_papers

VISITS = str(Path(swell_papers.__file__).parent / "scripts" / "visits.py")
WITHIN_S = 150.0
RACKS = ("east", "west", "east", "west")
#: It is cancelled long before.
STEPS = 100_000


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_a_job_of_two_machines_is_within_a_rack() -> None:
    """It takes more than a minute: four machines import torch. In the order of their names a job would have
    one machine of each rack."""
    pytest.importorskip("torch")
    if why_not():
        pytest.skip(f"machines cannot be had here: {why_not()}")
    with Network(5) as network:
        site = Site(network, "paced:2@128/1", racks=RACKS)
        assert {node["name"]: node["rack"] for node in site.nodes()} == {
            f"n{number}": rack for number, rack in enumerate(RACKS, 1)
        }
        words = ("--script", VISITS, "--steps", str(STEPS), "--global-batch", "64", "--workers", "4:4")
        [job] = json.loads(swell(site.head, "submit", *words, "--no-wait", "--json"))
        deadline_s = time.monotonic() + WITHIN_S
        while (shown := json.loads(swell(site.head, "show", job["id"], "--json")))["phase"] != "running":
            assert time.monotonic() < deadline_s, shown
            time.sleep(0.1)
        nodes = {device.partition("/")[0] for device in shown["devices"]}
        assert len(nodes) == 2 and len({RACKS[int(name[1:]) - 1] for name in nodes}) == 1
        swell(site.head, "cancel", job["id"])

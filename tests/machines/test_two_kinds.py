"""Two machines of two kinds: each job trains on the kind that it names, and on no other one."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.machines.namespaces import Network, why_not
from tests.machines.site import Site, start, swell

import swell_papers

VISITS = str(Path(swell_papers.__file__).parent / "scripts" / "visits.py")
WITHIN_S = 150.0
STEPS = 40


def words(name: str, *options: str) -> tuple[str, ...]:
    ends = ("--steps", str(STEPS), "--global-batch", "64", "--workers", "1:2")
    return ("submit", "--script", VISITS, "--name", name, *ends, *options)


def submit(site: Site, name: str, *options: str) -> str:
    [job] = json.loads(swell(site.head, *words(name, *options), "--no-wait", "--json"))
    return str(job["id"])


def refusal(site: Site, name: str, *options: str) -> str:
    command = start(site.head, *words(name, *options), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    _, complaint = command.communicate()
    assert command.returncode == 2
    return str(complaint)


def await_that(site: Site, job_id: str, is_so: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    deadline_s = time.monotonic() + WITHIN_S
    while not is_so(shown := json.loads(swell(site.head, "show", job_id, "--json"))):
        assert time.monotonic() < deadline_s, shown
        time.sleep(0.1)
    return dict(shown)


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_each_of_two_machines_trains_the_job_that_names_its_kind() -> None:
    """It takes a minute: two machines import torch. One of them offers as many devices as both jobs want."""
    pytest.importorskip("torch")
    if why_not():
        pytest.skip(f"machines cannot be had here: {why_not()}")
    with Network(3) as network:
        site = Site(network, "paced:4@128", kinds=("slow", "fast"))
        assert {node["name"]: node["kind"] for node in site.nodes()} == {"n1": "slow", "n2": "fast"}
        assert "name one with --kind" in refusal(site, "none")
        assert "the platform has fast (4 devices), slow (4 devices)" in refusal(
            site, "other", "--kind", "a100"
        )
        wanted = {submit(site, f"on-{kind}", "--kind", kind): kind for kind in ("slow", "fast", "fast")}
        for job_id, kind in wanted.items():
            node = {"slow": "n1", "fast": "n2"}[kind]
            shown = await_that(site, job_id, lambda job: job["phase"] in ("running", "succeeded"))
            assert shown["kind"] == kind
            assert {device.partition("/")[0] for device in shown["devices"]} <= {node}
        for job_id in wanted:
            ended = await_that(site, job_id, lambda job: job["phase"] == "succeeded")
            assert ended["metrics"] == {"samples_lost": 0.0, "samples_repeated": 0.0}
        assert "8 of 8 devices free (4 of 4 slow, 4 of 4 fast)" in swell(site.head, "nodes")
        swell(site.head, "nodes", "drain", "n2")
        left = await_that(site, submit(site, "left"), lambda job: job["phase"] in ("running", "succeeded"))
        assert left["kind"] == "slow", "the only one that takes work"

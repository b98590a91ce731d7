"""Machines of two racks: a job that needs two of them gets two of one rack."""

from __future__ import annotations

import pytest
from tests.machines.namespaces import Network, why_not
from tests.machines.site import Jobs, Site, hosts_of

RACKS = ("east", "west", "east", "west")
#: It is not waited for.
STEPS = 100_000


@pytest.mark.soak
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
        jobs = Jobs(site)
        job = jobs.submit("wide", STEPS, "--workers", "4:4", "--no-wait")
        nodes = hosts_of(jobs.await_that(job, lambda shown: shown["phase"] == "running"))
        assert len(nodes) == 2 and len({RACKS[int(name[1:]) - 1] for name in nodes}) == 1

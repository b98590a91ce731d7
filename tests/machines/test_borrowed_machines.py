"""Borrowed machines that are killed without notice: promises stand on owned ones, other jobs go on."""

from __future__ import annotations

import pytest
from tests.machines.namespaces import Network, why_not
from tests.machines.site import Jobs, Site, hosts_of, swell

#: Short leases, so that what the dead held is free soon.
OPTIONS = ["--set", "lease_s=5", "--set", "lease_margin_s=2", "--set", "checkpoint_interval_s=2"]


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_no_promise_is_broken_when_borrowed_machines_are_killed() -> None:
    """The default policy has a promised job and one that leaves its batch open.

    It takes a minute: three machines import torch, and leases end.
    """
    pytest.importorskip("torch")
    if why_not():
        pytest.skip(f"machines cannot be had here: {why_not()}")
    with Network(4) as network:
        site = Site(network, "paced:2@128", OPTIONS, num_borrowed=2)
        assert {node["name"] for node in site.nodes() if node["is_borrowed"]} == {"n2", "n3"}
        jobs = Jobs(site)
        other = jobs.submit("other", 160, "--workers", "1:4", "--batch", "32:256", "--no-wait")
        promised = jobs.submit("promised", 80, "--workers", "1:2", "--deadline", "now+2m", "--no-wait")
        shown = jobs.await_that(promised, lambda job: job["phase"] == "running")
        assert shown["is_promised"] and hosts_of(shown) == {"n1"}, "no promise stands on a borrowed node"
        shown = jobs.await_that(other, lambda job: job["steps"] > 0 and hosts_of(job) & {"n2", "n3"})
        assert 32 <= shown["batch"] <= 256
        for host in site.hosts[1:]:
            host.kill()
        assert jobs.await_that(promised, lambda job: job["phase"] == "succeeded")["kept"]
        ended = jobs.await_that(other, lambda job: job["phase"] == "succeeded")
        assert ended["metrics"] == {"samples_lost": 0.0, "samples_repeated": 0.0}
        told = swell(site.head, "nodes")
        assert "lost: n2" in told and "it has not renewed its lease" in told

"""A host is killed while promised jobs run on all of them: promises that are to survive a lost node do.

`pytest -m soak -s tests/machines/test_promised_through_a_lost_host.py` prints how much time was left.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from tests.machines.namespaces import Network, why_not
from tests.machines.site import Jobs, Site, hosts_of, swell

#: Short leases, so that jobs of tens of seconds can pay for the time until a loss is heard of.
OPTIONS = ["lease_s=5", "lease_margin_s=2", "checkpoint_interval_s=2", "unified.survive_nodes=1"]
#: Of each promised job: workers, and steps. A worker alone does two steps a second. All jobs of a test
#: together have as many devices as two hosts.
APART, ACROSS = (("1", 72), ("1", 80), ("2", 120)), (("1:4", 240),)


def told(ended: list[dict[str, Any]], is_lost: list[bool]) -> str:
    left_s = [job["deadline_s"] - job["finished_s"] for job in ended]
    words = ["lost and" if was_lost else "not lost and" for was_lost in is_lost]
    return ", ".join(f"{word} {left:.1f} s early" for word, left in zip(words, left_s, strict=True))


def check(promised: tuple[tuple[str, int], ...], seed: int) -> None:
    """Each promise is the earliest deadline that is offered; at some moment a host of one is killed."""
    pytest.importorskip("torch")
    if why_not():
        pytest.skip(f"machines cannot be had here: {why_not()}")
    generator = random.Random(seed)
    with Network(4) as network:
        site = Site(network, "paced:2@128", [word for text in OPTIONS for word in ("--set", text)])
        jobs, asked = Jobs(site), ("--deadline", "now+5s", "--accept-until", "now+5m")
        job_ids = [
            jobs.submit(f"promised-{number}", steps, "--workers", workers, *asked)
            for number, (workers, steps) in enumerate(promised)
        ]
        for job_id in job_ids:
            jobs.await_that(job_id, lambda job: job["steps"] > 0)
        moment = generator.randrange(4, promised[-1][1] // 2)
        jobs.await_that(job_ids[-1], lambda job: job["steps"] >= moment)
        before = [jobs.shown(job_id) for job_id in job_ids]
        assert all(job["phase"] == "running" and job["is_promised"] for job in before)
        name = generator.choice(sorted(set().union(*map(hosts_of, before))))
        site.hosts[int(name.removeprefix("n")) - 1].kill()
        ended = [jobs.await_that(job_id, lambda job: job["phase"] == "succeeded") for job_id in job_ids]
        is_lost = [name in hosts_of(job) for job in before]
        print(f"\nseed {seed}, {name} is killed at step {moment}: {told(ended, is_lost)}")
        assert f"lost: {name}" in swell(site.head, "nodes")
        assert all(job["kept"] for job in ended), [swell(site.head, "explain", job) for job in job_ids]
        for job, was_lost, then in zip(ended, is_lost, before, strict=True):
            assert job["generation"] > then["generation"] or not was_lost
            assert job["metrics"] == {"samples_lost": 0.0, "samples_repeated": 0.0}


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(10))
def test_no_promise_is_broken_when_a_host_is_killed(seed: int) -> None:
    """It takes a minute and a half."""
    check(APART, seed)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(3))
def test_nor_is_that_of_a_gang_that_spans_it(seed: int) -> None:
    check(ACROSS, seed)

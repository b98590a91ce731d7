"""The priority of a job, and another one while it waits or runs."""

from __future__ import annotations

import pytest
from tests.core.driven_world import DrivenWorld
from tests.core.fakes import core_of, node, spec, strict
from tests.core.head import Head

from swell.model.job import JobSpec, Phase
from swell.sim.faults import NO_FAULTS
from swell_papers.variants import variant_policy


def head_of(policy: str, *jobs: JobSpec) -> Head:
    """One device, and jobs `a`, `b`, ...: the first one runs."""
    head = Head(lambda: core_of(variant_policy(policy)), DrivenWorld(0, NO_FAULTS))
    head.world.join(node("n0", 1))
    for letter, job in zip("abc", jobs, strict=False):
        head.submit(letter, job)
        head.turn()
        head.run_until(lambda: head.phase("a") is Phase.RUNNING)
    return head


@pytest.mark.parametrize("policy", ["elasticflow", "fifo", "srtf"])
def test_a_waiting_job_gets_the_device_once_its_priority_is_higher(policy: str) -> None:
    head = head_of(policy, spec(2000), spec(4000))
    head.run_until(lambda: head.job("b").reason_code == "waiting")
    head.prioritize("b", 1)
    head.run_until(lambda: head.phase("b") is Phase.RUNNING)
    assert (head.job("b").priority, head.phase("a")) == (1, Phase.QUEUED)
    assert head.job("a").steps > 0, "it goes on from there"
    head.prioritize("a", 2)
    head.run_until(lambda: head.phase("a") is Phase.RUNNING)
    assert head.phase("b") is Phase.QUEUED


@pytest.mark.slow
def test_a_promise_is_kept_whatever_priority_another_job_gets() -> None:
    head = head_of("elasticflow", strict(400.0, 2000), spec(4000))
    assert head.job("a").is_promised
    head.prioritize("b", 1000)
    head.run_until(lambda: "a" in head.ended)
    assert head.ended["a"].kept


def test_a_weight_is_changed_without_the_priority() -> None:
    head = head_of("bftrainer_corrected", spec(2000, priority=4), spec(2000))
    head.prioritize("b", weight=50.0)
    head.run_until(lambda: head.phase("b") is Phase.RUNNING)
    assert (head.job("b").weight, head.job("b").priority, head.phase("a")) == (50.0, 0, Phase.QUEUED)
    head.prioritize("b", weight=50.0)  # as it is
    head.prioritize("a", priority=1, weight=9000.0)
    head.run_until(lambda: head.phase("a") is Phase.RUNNING)
    told = [(job, story.text) for job, story in head.core.stories() if story.code == "priority"]
    assert [text for _, text in told if "priority" in text] in (
        [],
        ["its owner changes its priority from 4 to 1 and its weight from 1 to 9000"],
    )

"""A size that was measured while its machine was busy is tried again, though no policy has a use for it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.core.driven_world import DrivenWorld
from tests.core.fakes import core_of, node, spec
from tests.core.head import Head

from swell.model.job import Phase
from swell.policies.registry import new_policy
from swell.sim.true_speed import TrueSpeed
from swell.throughput import learnt
from swell.throughput.belief import FittedBelief

MEASURED_S = 20.0  #: with four workers
RETRY_S = 30.0  #: as long as it really is would take many turns
SIZES, RATES_PER_S = np.array([1, 2, 4]), np.array([10.0, 16.0, 22.0])


class Crowded(TrueSpeed):
    """While other programs are busy, four workers are slower than two."""

    def __init__(self) -> None:
        super().__init__(SIZES, RATES_PER_S)
        self.is_busy = True

    def rate_per_s(self, num_workers: int) -> float:
        """Steps/s."""
        share = 0.3 if self.is_busy and num_workers == 4 else 1.0
        return share * super().rate_per_s(num_workers)


@pytest.fixture
def speed() -> Crowded:
    return Crowded()


@pytest.fixture
def head(speed: Crowded, monkeypatch: pytest.MonkeyPatch) -> Head:
    """`begin`, with a shorter wait than there is."""
    measured_s = learnt.MEMORY_S * (1.0 - math.exp(-MEASURED_S / learnt.MEMORY_S))
    monkeypatch.setattr(learnt, "RETRY_RATIO", RETRY_S / measured_s)
    return begin(speed, MEASURED_S)


def begin(speed: Crowded, measured_s: float) -> Head:
    """A job that has trained with four workers on a busy machine, and with two while another job trained."""
    head = Head(lambda: core_of(new_policy("elasticflow"), belief=FittedBelief), DrivenWorld())
    head.world.speed = speed
    head.world.join(node("n0", 4))
    head.submit("a", spec(1_000_000))
    head.turn()
    head.run_until(lambda: head.phase("a") is Phase.RUNNING and head.job("a").workers == 4)
    head.run_for(measured_s)
    head.submit("b", spec(100, min_workers=2, max_workers=2))
    head.run_until(lambda: head.job("a").workers == 2)
    head.run_until(lambda: "b" in head.ended)
    return head


def test_a_job_has_all_devices_again_once_a_busy_machine_is_calm(head: Head, speed: Crowded) -> None:
    speed.is_busy = False
    head.run_for(0.5 * RETRY_S)
    assert head.job("a").workers == 2, "what was measured counts"
    head.run_for(RETRY_S)
    assert head.job("a").workers == 4
    head.run_for(4.0 * RETRY_S)
    assert head.job("a").workers == 4

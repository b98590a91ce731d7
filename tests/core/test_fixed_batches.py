"""Which batch a job is offered: a fixed one, by its policy's wish, or one whose rate lasts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.fakes import PowerBelief, PowerSpeed, node, profile, spec

from swell.arrays import FloatArray, IntArray
from swell.core.core import Core
from swell.core.core_settings import CoreSettings
from swell.core.planner import Planner
from swell.model.event import JobProfiled, JobSubmitted, NodeJoined
from swell.model.job import JobClass, JobSpec
from swell.model.options import Domain, FixedBatch, Sizes
from swell.model.plan import Allocation
from swell.model.snapshot import Snapshot
from swell.placement.best_fit import BestFitPlacer
from swell.policies.unpromised import Fifo
from swell.throughput.learnt import UNPROFILED, Learnt


@given(least=st.integers(1, 5_000), more=st.integers(0, 5_000), name=st.text(max_size=5))
def test_a_fixed_batch_is_within_the_range_and_always_the_same(least: int, more: int, name: str) -> None:
    most = least + more
    assert FixedBatch.SMALLEST.of(name, least, most) == least
    assert FixedBatch.LARGEST.of(name, least, most) == most
    drawn = FixedBatch.DRAWN.of(name, least, most)
    assert least <= drawn <= most and drawn == FixedBatch.DRAWN.of(name, least, most)


class OpenSpeed(PowerSpeed, kw_only=True):
    """A step of M samples on w workers takes M / w + 1 s, of at most 32 samples a worker; 16 are the own."""

    is_fading: bool

    def rates_at_batch(
        self, sizes: IntArray, global_batch: int, hosts: IntArray | None = None
    ) -> FloatArray | None:
        rates = global_batch / 16 / (global_batch / sizes + 1.0)
        return np.where(global_batch <= 32 * sizes, rates, 0.0)

    def best_batches(
        self, sizes: IntArray, kept: int, hosts: IntArray | None = None, by_goodput: bool = False
    ) -> tuple[FloatArray, IntArray] | None:
        return np.array([2.0 / 33.0] * len(sizes)), np.full_like(sizes, 32)

    @property
    def changes_worth(self) -> bool:
        return self.is_fading


class OpenBelief(PowerBelief):
    def of(self, job_id: str) -> Learnt:
        return OpenSpeed(curve=UNPROFILED.curve, is_fading=job_id == "fading")


class Watching(Fifo):
    """Keeps what it has seen."""

    name = "watching"
    domain = Domain(sizes=Sizes.EVERY, opens_batches=True, fixed_batch=FixedBatch.LARGEST)

    def decide(self, snapshot: Snapshot) -> Allocation:
        seen.append(snapshot)
        return super().decide(snapshot)


class Lasting(Watching):
    name = "lasting"
    domain = Domain(opens_batches=True, lasting_rates=True)


seen: list[Snapshot] = []


def shown(policy: Watching, num_devices: int, job: JobSpec, job_id: str = "a") -> Snapshot:
    """What the policy is shown of a job of 16 samples a step that was tried."""
    core = Core(Planner(policy, BestFitPlacer()), OpenBelief(), CoreSettings())
    core.handle([NodeJoined(at_s=1.0, node=node("n0", num_devices))])
    core.handle([JobSubmitted(at_s=2.0, job_id=job_id, spec=job)])
    core.handle([JobProfiled(at_s=3.0, job_id=job_id, profile=profile())])
    return seen[-1]


@pytest.mark.parametrize(("is_open", "sizes", "batch"), [(True, [3, 4], 96), (False, [1, 2, 3, 4], 0)])
def test_the_snapshot_offers_sizes_that_can_have_the_fixed_batch(
    is_open: bool, sizes: list[int], batch: int
) -> None:
    view = shown(Watching(), 4, spec(100, global_batch=16, max_batch=96 if is_open else None))
    options = view.options
    assert options.workers.tolist() == sizes
    assert options.global_batch.tolist() == [batch] * len(sizes)
    if is_open:
        assert options.rate_per_s == pytest.approx([6.0 / 33.0, 6.0 / 25.0])
        assert view.one_worker_per_s.tolist() == [2.0 / 33.0]


@pytest.mark.parametrize(
    ("job_id", "job_class", "batch"),
    [
        ("fading", JobClass.STRICT, 0),
        ("fading", JobClass.SOFT, 0),
        ("fading", JobClass.BEST_EFFORT, 32),
        ("steady", JobClass.STRICT, 32),
    ],
)
def test_a_job_with_a_deadline_keeps_its_own_batch_where_a_policy_asks_for_rates_that_last(
    job_id: str, job_class: JobClass, batch: int
) -> None:
    deadline_s = None if job_class is JobClass.BEST_EFFORT else 1e6
    asked = spec(100, global_batch=16, max_batch=96, job_class=job_class, deadline_s=deadline_s)
    assert shown(Lasting(), 2, asked, job_id).options.global_batch.tolist() == [batch, batch]

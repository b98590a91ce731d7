"""What Themis promises: the job that is treated worst is served first, and leases are kept."""

from __future__ import annotations

import pytest
from tests.policies.fluid import follow
from tests.policies.snapshots import NOW_S, best_effort, snapshot

from swell.policies.flowcon import requested_levels
from swell_papers.policies.themis import LEASE_S, Themis, finish_time_fairness

ONE = {1: 1.0}
LINEAR = {1: 1.0, 2: 2.0, 4: 4.0, 8: 8.0}
#: The round of NOW_S began at 0.
BEFORE_S, WITHIN_S = -(NOW_S + 1.0), -(NOW_S - 1.0)


def test_rho_is_the_end_shared_over_the_end_on_an_equal_share() -> None:
    """Section 3.2, by hand: 8 devices, two jobs that can run, so a share of 4."""
    jobs = [
        best_effort("wide", LINEAR, 800, requested=8, done=800.0, submitted=-300.0),
        best_effort("narrow", LINEAR, 100, requested=1, submitted=-100.0),
        best_effort("fits nowhere", {8: 1.0}, 100, requested=8, devices_per_worker=2),
    ]
    view = snapshot(jobs, 8)
    # (300 + 100) / (200 x 2), for it has half of what it asked for; (100 + 100) / 100.
    assert finish_time_fairness(view, requested_levels(view)).tolist() == [1.0, 2.0, 0.0]


def test_the_worst_share_of_jobs_bids_first_and_the_largest_gain_per_device_wins() -> None:
    """Section 3.3, of ten bidders the worst two are offered the devices; the others have what is left."""
    others = [best_effort(f"o{i}", ONE, 1e5, submitted=BEFORE_S) for i in range(8)]
    worst = best_effort("worst, and wide", LINEAR, 400, requested=4, submitted=9 * BEFORE_S)
    second = best_effort("second, and narrow", ONE, 1000, submitted=9 * BEFORE_S)
    given = Themis().decide(snapshot([*others, worst, second], 4)).workers.tolist()
    # One device for the second, and the wide one does not fit beside it.
    assert given[-2:] == [0, 1]
    given = Themis().decide(snapshot([*others, worst, second], 5)).workers.tolist()
    assert given == [0] * 8 + [4, 1]


def test_equal_jobs_that_share_a_device_end_about_as_late_as_each_other() -> None:
    """Sharing incentive, within a lease: no job ends much later than on a third of its own."""
    work = 6 * LEASE_S
    jobs = [best_effort(name, ONE, work, submitted=0.0) for name in ("a", "b", "c")]
    run = follow(Themis(), jobs, 1, margin_share=0.0, min_hold_s=0.0)
    assert max(run.finished.values()) == pytest.approx(3 * work, abs=1.0)
    assert max(run.finished.values()) <= 3 * work + LEASE_S
    assert min(run.finished.values()) >= 3 * work - 3 * LEASE_S

"""What Gandiva promises: no job waits long for a first slice, and all are slowed down alike."""

from __future__ import annotations

import numpy as np
from tests.policies.fluid import follow
from tests.policies.snapshots import NOW_S, best_effort, snapshot

from swell_papers.policies.gandiva import SLICE_S, Gandiva

ONE = {1: 1.0}
#: The present round began 1000 s ago: NOW_S is 1000.
ROUND_S = NOW_S % SLICE_S


def test_a_slice_is_kept_and_then_goes_to_who_has_waited_longest() -> None:
    fresh, old = -(ROUND_S - 1.0), -(ROUND_S + 1.0)
    jobs = [
        best_effort("has its slice", ONE, 1e6, held=1, changed=fresh, submitted=-9000.0),
        best_effort("had its slice", ONE, 1e6, held=1, changed=old, submitted=-9000.0),
        best_effort("stopped last round", ONE, 1e6, changed=old - 50.0, submitted=-9000.0),
        best_effort("never ran", ONE, 1e6, submitted=old - 99.0),
        best_effort("has just come", ONE, 1e6, submitted=-1.0),
    ]
    answer = Gandiva().decide(snapshot(jobs, 2))
    assert answer.workers.tolist() == [1, 0, 0, 1, 0]
    assert answer.wake_s == NOW_S - ROUND_S + SLICE_S
    assert Gandiva().decide(snapshot(jobs, 4)).workers.tolist() == [1, 1, 1, 1, 0]


def test_all_are_slowed_down_alike() -> None:
    """Three equal jobs on one device end within two slices of each other, at three times their length."""
    jobs = [best_effort(name, ONE, 10 * SLICE_S, submitted=0.0) for name in ("a", "b", "c")]
    run = follow(Gandiva(), jobs, 1, margin_share=0.0, min_hold_s=0.0)
    ends_s = np.array(sorted(run.finished.values()))
    assert ends_s[-1] - ends_s[0] <= 2 * SLICE_S
    assert abs(ends_s[-1] - 30 * SLICE_S) < 1.0

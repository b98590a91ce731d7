"""What another size would save a running job: belief, for as long as the size is likely to be held."""

from __future__ import annotations

import numpy as np

from swell.model.snapshot import FloatArray, IntArray, Snapshot


def gain_s(snapshot: Snapshot, workers: IntArray) -> FloatArray:
    """(J,) seconds saved by going from what is held to `workers`, the cost of that not taken off.

    Joiners take `resize_wait_s` to come, and until then the old size trains on. The new one is held until
    the job ends, or for `expected_hold_s`. Negative for a smaller size; 0 where nothing is held.
    """
    is_change = (snapshot.held_workers > 0) & (workers > 0) & (workers != snapshot.held_workers)
    if not is_change.any():
        return np.zeros(snapshot.num_jobs)
    rate_now = np.maximum(snapshot.held_rate_per_s, 1e-12)
    rate_then = np.maximum(snapshot.rates_at(workers), 1e-12)
    wait_s = np.where(workers > snapshot.held_workers, snapshot.resize_wait_s, 0.0)
    left = np.maximum(snapshot.remaining_steps - rate_now * wait_s, 0.0)
    lasts_s = np.minimum(left / rate_then, snapshot.expected_hold_s)
    saved_s: FloatArray = np.where(is_change, lasts_s * (rate_then / rate_now - 1.0), 0.0)
    return saved_s

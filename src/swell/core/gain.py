"""What another size would save a running job: belief, for as long as the size is likely to be held."""

from __future__ import annotations

import numpy as np

from swell.arrays import FloatArray, IntArray
from swell.compiled import suited
from swell.model.snapshot import Snapshot

#: A rate of 0 would have to be divided by.
LEAST_RATE_PER_S = 1e-12


def gain_s(snapshot: Snapshot, workers: IntArray) -> FloatArray:
    """(J,) seconds saved by going from what is held to `workers`, the cost of that not taken off.

    Joiners take `resize_wait_s` to come, and until then the old size trains on. The new one is held until
    the job ends, or for `expected_hold_s`. Negative for a smaller size; 0 where nothing is held.
    """
    saved_s = np.zeros(snapshot.num_jobs)
    suited(_save, snapshot.num_jobs)(
        snapshot.held_workers,
        workers,
        snapshot.held_rate_per_s,
        snapshot.rates_at(workers),
        snapshot.remaining_steps,
        snapshot.resize_wait_s,
        snapshot.expected_hold_s,
        saved_s,
    )
    return saved_s


def _save(
    held: IntArray,
    workers: IntArray,
    rate_now_per_s: FloatArray,
    rate_then_per_s: FloatArray,
    remaining_steps: FloatArray,
    wait_s: FloatArray,
    expected_hold_s: FloatArray,
    saved_s: FloatArray,
) -> None:
    """Write what `gain_s` says, where it is not 0."""
    for row in range(len(held)):
        if held[row] <= 0 or workers[row] <= 0 or workers[row] == held[row]:
            continue
        now, then = max(rate_now_per_s[row], LEAST_RATE_PER_S), max(rate_then_per_s[row], LEAST_RATE_PER_S)
        waits_s = wait_s[row] if workers[row] > held[row] else 0.0
        left = max(remaining_steps[row] - now * waits_s, 0.0)
        saved_s[row] = min(left / then, expected_hold_s[row]) * (then / now - 1.0)

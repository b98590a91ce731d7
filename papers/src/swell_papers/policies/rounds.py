"""Rounds of one length for all, read from when gangs changed: nothing is remembered."""

from __future__ import annotations

import math
from enum import IntEnum

import numpy as np

from swell.arrays import IntArray
from swell.model.snapshot import Snapshot
from swell.policies.levels import Levels

#: The head is not woken sooner than this: rounding may leave a round just before its end, or a job
#: just below its threshold.
LEAST_WAIT_S = 0.1


class RoundClaim(IntEnum):
    """What a job may ask for in the present round, the best claim first."""

    KEEPS = 0  #: got its devices in this round
    ASKS = 1  #: has waited since before it
    GOES_ON = 2  #: got its devices before it: an asker may have them
    COMES_LATE = 3  #: has waited only since this round began: it asks for idle devices


def claims(snapshot: Snapshot, length_s: float) -> IntArray:
    """(J,) the `RoundClaim` of each job.

    Rounds begin at whole multiples of `length_s`, so those of all gangs end together, and a wide job finds
    many devices at once. Within a round no job that was stopped for it comes back at once.
    """
    start_s = math.floor(snapshot.now_s / length_s) * length_s
    is_old = _since_s(snapshot) < start_s
    held = np.where(snapshot.changed_s < start_s, RoundClaim.GOES_ON, RoundClaim.KEEPS)
    waiting = np.where(is_old, RoundClaim.ASKS, RoundClaim.COMES_LATE)
    claim: IntArray = np.where(snapshot.held_workers > 0, held, waiting).astype(np.int64)
    return claim


def longest_first(snapshot: Snapshot, rows: IntArray, claim: IntArray) -> IntArray:
    """Jobs that keep their devices, then by priority, claim, and when each last started, stopped or came.

    Args:
        rows: in the order in which ties are resolved.
    """
    keys = (_since_s(snapshot), claim, -snapshot.priority, claim != RoundClaim.KEEPS)
    ordered: IntArray = rows[np.lexsort([key[rows] for key in keys])]
    return ordered


def next_round_s(snapshot: Snapshot, levels: Levels, length_s: float) -> float:
    """When the next round begins if anybody waits for it, else never; not sooner than sizes may change."""
    if not ((snapshot.held_workers == 0) & (levels.num > 0)).any():
        return math.inf
    start_s = (math.floor(snapshot.now_s / length_s) + 1) * length_s
    return max(start_s, snapshot.now_s + max(snapshot.min_hold_s, LEAST_WAIT_S))


def _since_s(snapshot: Snapshot) -> np.ndarray:
    return np.maximum(snapshot.changed_s, snapshot.submitted_s)

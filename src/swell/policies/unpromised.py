"""The answer of policies that make no promises."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from swell.model.plan import Allocation, Reason
from swell.model.snapshot import IntArray, Snapshot
from swell.policies import wording
from swell.policies.levels import Levels
from swell.policies.outlook import look_ahead


def without_promises(
    snapshot: Snapshot,
    levels: Levels,
    level: IntArray,
    order: Sequence[int],
    why_has: Callable[[int], str],
    why_waits: str,
) -> Allocation:
    """The answer of a policy that refuses nobody.

    Every undecided job is let in. What the head then calls promised is only not refused: there are no
    floors, and deadlines play no part.
    """
    outlook = look_ahead(snapshot, levels, level, [row for row in order if level[row] == 0])
    workers = levels.workers_at(level)

    def reason(row: int) -> Reason:
        if levels.num[row] == 0:
            return wording.fits_nowhere(snapshot.num_devices)
        if level[row] == 0:
            return wording.waits(why_waits, float(outlook.start_s[row]))
        return wording.gets(int(workers[row]), why_has(row), float(outlook.end_s[row]))

    return Allocation(
        workers=workers,
        floor=np.zeros_like(workers),
        finish_s=snapshot.now_s + outlook.end_s,
        reasons=tuple(reason(row) for row in range(snapshot.num_jobs)),
        refusals={},
        wake_s=math.inf,
    )

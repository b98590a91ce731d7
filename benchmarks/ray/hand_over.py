"""How soon another user of Ray has a device that a job of Swell leaves."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from tests.ray.cluster import RayNode

from benchmarks.ray.changes import LIMIT_S, NUM_STEPS
from benchmarks.ray.site import Site
from benchmarks.ray.swell_side import SwellSide
from benchmarks.training.sides import wait_for_group


@dataclass(frozen=True, slots=True)
class HandOver:
    """Until the other user's task runs, its process started. Seconds, below 0 if it ran sooner."""

    after_shrink_s: float  #: from the end of the first step of the smaller group
    after_command_s: float  #: from the command to shrink


def hand_over(site: Site, side: SwellSide, nodes: Sequence[RayNode]) -> HandOver:
    """The job leaves the last of its nodes, for whose device a task waits, and then comes back."""
    *kept, left = nodes
    history = wait_for_group(side, 0, len(nodes), NUM_STEPS, LIMIT_S)
    site.ask_for_device(left)
    told_s = time.time()
    side.leave(left)
    began_s = site.await_task()
    history = wait_for_group(side, len(history), len(kept), NUM_STEPS, LIMIT_S)
    site.end_task()
    side.joined([left])
    return HandOver(began_s - min(history[-1].ends_s.values()), began_s - told_s)

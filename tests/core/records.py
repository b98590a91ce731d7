"""Gangs and records for tests."""

from __future__ import annotations

import numpy as np

from swell.arrays import FloatArray, read_only
from swell.core.costs import CostTable
from swell.core.gang import NO_GANG, AnyGang, SteadyGang
from swell.core.table import JobTable
from swell.model.snapshot import Snapshot
from swell.model.target import Target


def steady(*devices: str, generation: int = 1) -> AnyGang:
    """A gang that trains on these; none on none."""
    return SteadyGang(generation=generation, members=Target(devices=devices)) if devices else NO_GANG


def seen(table: JobTable, now_s: float, num_devices: int, costs: CostTable, margins: FloatArray) -> Snapshot:
    """What a policy sees of these jobs."""
    columns = table.seen(now_s, num_devices, 0, costs, margins)
    columns["held_borrowed"] = read_only(np.zeros(len(table), dtype=np.int64))
    return Snapshot(now_s=now_s, num_devices=num_devices, num_tenants=3, min_hold_s=5.0, **columns)

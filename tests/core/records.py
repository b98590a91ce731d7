"""Gangs and records for tests."""

from __future__ import annotations

import numpy as np

from swell.arrays import FloatArray, read_only
from swell.core.costs import CostTable
from swell.core.gang import Gang
from swell.core.table import JobTable
from swell.model.snapshot import Snapshot
from swell.model.target import Target


def steady(*devices: str, generation: int = 1) -> Gang:
    """A gang that trains on these; none on none."""
    of = Target(devices=devices)
    return Gang().launch(of).started(generation) if devices else Gang()


def seen(table: JobTable, now_s: float, num_devices: int, costs: CostTable, margins: FloatArray) -> Snapshot:
    """What a policy sees of these jobs."""
    columns = table.seen(now_s, num_devices, 0, costs, margins)
    columns["held_borrowed"] = read_only(np.zeros(len(table), dtype=np.int64))
    return Snapshot(now_s=now_s, num_devices=num_devices, num_tenants=3, min_hold_s=5.0, **columns)

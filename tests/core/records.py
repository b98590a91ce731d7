"""Gangs and records for tests."""

from __future__ import annotations

from swell.core.gang import NO_GANG, AnyGang, SteadyGang
from swell.model.target import Target


def steady(*devices: str, generation: int = 1) -> AnyGang:
    """A gang that trains on these; none on none."""
    return SteadyGang(generation=generation, members=Target(devices=devices)) if devices else NO_GANG

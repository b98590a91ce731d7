"""A simulated job whose state is divided pays for what comes to a worker, and others for the whole state."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from tests.sim.worlds import job

from swell.model.command import LaunchGang, Reconfigure
from swell.model.event import AnyEvent
from swell.model.target import Target
from swell.sim.change_cost import MeasuredCost
from swell.sim.event_queue import EventQueue
from swell.sim.faults import FaultSource
from swell.sim.gang import AskedChange
from swell.sim.gangs import GangTimes, SimGangs


def _devices(num_workers: int) -> Target:
    """Of workers with two devices each."""
    return Target(devices=tuple(f"n0.{number}" for number in range(2 * num_workers)))


@pytest.mark.parametrize(
    ("divided_bytes", "pauses_s"),
    [(0, (12.0, 0.0)), (12_000_000_000, (3.0, 9.0)), (6_000_000_000, (6.0 + 1.5, 4.5))],
)
def test_a_growth_to_four_workers_and_a_shrink_to_one(
    divided_bytes: int, pauses_s: tuple[float, float]
) -> None:
    plain = job("a")
    spec = msgspec.structs.replace(plain.spec, devices_per_worker=2)
    profile = msgspec.structs.replace(plain.profile, state_bytes=12_000_000_000, divided_bytes=divided_bytes)
    divided = replace(plain, spec=spec, profile=profile)
    told = list[AnyEvent]()
    gangs = SimGangs(MeasuredCost(pause_s=0.0), GangTimes(), EventQueue(), told.append, FaultSource())
    target = _devices(2)
    gangs.launch(
        divided,
        LaunchGang(job_id="a", generation=1, target=target, spec=spec, total_steps=None),
        frozenset(),
        0.0,
    )
    gangs.started("a", 1, 0.0)
    for generation, (num_workers, pause_s) in enumerate(zip((4, 1), pauses_s, strict=True), 2):
        order = Reconfigure(job_id="a", generation=generation, target=_devices(num_workers))
        gangs.reconfigure(order, frozenset(), 20.0)
        change = gangs.training["a"].change
        assert isinstance(change, AskedChange) and change.pause_s == pytest.approx(pause_s)
        gangs.changed("a", generation, 30.0)

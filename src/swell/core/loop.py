"""The scheduler, in both its lives: these lines run in simulation and on real machines."""

from __future__ import annotations

from swell.core.platform_core import PlatformCore
from swell.core.ports import Journal, World


def run(world: World, journal: Journal, core: PlatformCore) -> None:
    """Until the world ends: write down what happened, decide, act."""
    while batch := world.next_events():
        journal.append(batch)
        for command in core.handle(batch):
            world.perform(command)

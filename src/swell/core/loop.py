"""The scheduler, in both its lives: these lines run in simulation and on real machines."""

from __future__ import annotations

from swell.core.ports import Decider, Journal, World


def run(world: World, journal: Journal, core: Decider) -> None:
    """Until the world ends: write down what happened, decide, act."""
    while batch := world.next_events():
        journal.append(batch)
        for command in core.handle(batch):
            world.perform(command)

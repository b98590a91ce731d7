"""The scheduler, in both its lives: these lines run in simulation and on real machines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from swell.model.command import AnyCommand
from swell.model.event import AnyEvent


class World(Protocol):
    """Everything outside the head: time, machines, users."""

    def next_events(self) -> Sequence[AnyEvent]:
        """All that is due, in order of `at_s`; empty when the world has ended."""

    def perform(self, command: AnyCommand) -> None:
        """Begin it. What comes of it is an event; a failure too is an event, never an exception."""


class Journal(Protocol):
    """The truth: batches of events in the order the head saw them."""

    def append(self, batch: Sequence[AnyEvent]) -> None:
        """Keep the batch; it is safe on disk when this returns."""


class Decider(Protocol):
    """Decides what follows from what happened."""

    def handle(self, batch: Sequence[AnyEvent]) -> Sequence[AnyCommand]:
        """Handle a batch; each comes once, in the order of the journal."""


def run(world: World, journal: Journal, core: Decider) -> None:
    """Until the world ends: write down what happened, decide, act."""
    while batch := world.next_events():
        journal.append(batch)
        for command in core.handle(batch):
            world.perform(command)

"""What happens in a simulated world from outside: events for the head, and nodes that come and go."""

from __future__ import annotations

from dataclasses import dataclass

from swell.model.event import AnyEvent
from swell.model.node import Node


@dataclass(frozen=True, slots=True)
class EventArrives:
    """The head hears of this event."""

    event: AnyEvent


@dataclass(frozen=True, slots=True)
class NodeFails:
    name: str


@dataclass(frozen=True, slots=True)
class NodeReturns:
    node: Node


Occurrence = EventArrives | NodeFails | NodeReturns

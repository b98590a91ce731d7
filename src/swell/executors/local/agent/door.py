"""Where hosts of other machines join, as the agent knows it."""

from __future__ import annotations

from typing import Protocol


class DoorError(Exception):
    """What was asked of the door cannot be; the text names the remedy."""


class Door(Protocol):
    """Every method is called in the agent's event loop."""

    def remove(self, host: str) -> None:
        """Its workers are ended, and its process ends. Raises DoorError."""

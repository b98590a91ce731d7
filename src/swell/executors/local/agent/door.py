"""Where hosts of other machines join, as the agent knows it; see `executors.remote`."""

from __future__ import annotations

from typing import Protocol


class DoorError(Exception):
    """Hosts cannot join here, or what was asked of the door cannot be; the text names the remedy."""


class Door(Protocol):
    """Every method is called in the agent's event loop."""

    async def open(self) -> str:
        """Listen; returns the address for hosts. Raises DoorError."""

    def tick(self) -> None:
        """Time has passed. To be called ten times a second."""

    async def close(self) -> None:
        """No host can join; those that have are told to end their workers, which is waited for a while."""

    def remove(self, host: str) -> None:
        """Its workers are ended, and its process ends. Raises DoorError."""

    def want_devices(self, num: int) -> None:
        """Open jobs could use so many devices together: what brings machines may bring more, or fewer."""

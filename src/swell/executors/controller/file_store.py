"""What the controller needs of its state folder, for hosts that have another one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from swell.executors.hosts.file_messages import FileMessage
from swell.executors.hosts.messages import ToHost


class FileStore(Protocol):
    """Gives hosts code and checkpoints, and takes checkpoints and logs. Methods return at once."""

    def join(self, host: str, tell: Callable[[ToHost], None]) -> None:
        """From now on this host may say something. `tell` sends it a message."""

    def hear(self, host: str, message: FileMessage) -> None:
        """A message of a host that has joined."""

    def lose(self, host: str) -> None:
        """It is gone: what it was about to send does not come."""

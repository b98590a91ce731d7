"""What the controller needs of its state folder, for hosts that have another one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from swell.executors.hosts.file_messages import FileMessage
from swell.executors.hosts.messages import FromHost, NodeHost, ToHost


class FileStore(Protocol):
    """Gives hosts code and checkpoints, and takes checkpoints and logs. Methods return at once."""

    def join(self, host: str, machine: str, tell: Callable[[ToHost], None]) -> None:
        """Register a host, which may send messages from now on.

        `machine`: see `Join`; `tell` sends the host a message.
        """

    def note_told(self, host: str, message: ToHost) -> None:
        """The host is about to be told this: which runs it opens is what it may have files of."""

    def note_said(self, host: str, message: FromHost) -> None:
        """The host has said this; what it says of files is for `hear`."""

    def hear(self, host: str, message: FileMessage) -> None:
        """A message of a host that has joined."""

    def lose(self, host: str) -> None:
        """It is gone: what it was about to send does not come."""


@dataclass(frozen=True, slots=True)
class NotedHost:
    """See `NodeHost`: one of which the store hears what it is told."""

    name: str
    host: NodeHost
    store: FileStore

    @property
    def is_reached(self) -> bool:
        return self.host.is_reached

    def tell(self, message: ToHost) -> None:
        self.store.note_told(self.name, message)
        self.host.tell(message)

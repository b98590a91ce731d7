"""Lines to a standby in the test's hands: no network, and no time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from swell.standby.copied_folder import CopiedFolder
from swell.standby.messages import ChangesMade, ToStandby
from swell.standby.sender import StandbyError


class Standby:
    """Takes what it is told, unless the test cuts its line or holds what it would answer."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.told: list[ToStandby] = []  #: all that is on its disk
        self.num_lines = 0
        self.is_there = threading.Event()
        self.is_there.set()
        self.may_answer = threading.Event()  #: changes of the journal
        self.may_answer.set()
        self.has_changes = threading.Event()  #: some have come
        self.cut_at: type[ToStandby] | None = (
            None  #: the line breaks at the next of these, before it is taken
        )
        self.at_cut: Callable[[], object] = lambda: None

    @contextmanager
    def line(self) -> Iterator[Standby]:
        if not self.is_there.is_set():
            raise StandbyError("it is away")
        self.num_lines += 1
        self._copied = CopiedFolder(self.folder)
        try:
            yield self
        finally:
            self._copied.close()

    def tell(self, message: ToStandby) -> None:
        if isinstance(message, ChangesMade) and message.transactions:
            self.has_changes.set()
            assert self.may_answer.wait(30)
        if self.cut_at is not None and isinstance(message, self.cut_at):
            self.cut_at = None
            self.at_cut()
            raise ConnectionResetError("the line was cut")
        self._copied.take(message)
        self.told.append(message)

"""While the journal cannot be written the head stands still: nothing is done that is not on disk before."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from swell.model.errors import Unwritable
from swell.model.event import AnyEvent
from swell.model.view import JobView, Story
from swell.store.journal import Delivery, SqlJournal

T = TypeVar("T")

#: Between two tries.
RETRY_S = 0.5

log = logging.getLogger("swell.platform")


class RetryingJournal:
    """Waits for room on the disk. `tell` hears why, and an empty text when it is over."""

    def __init__(self, journal: SqlJournal, tell: Callable[[str], None]) -> None:
        self._journal = journal
        self._tell = tell
        self._is_stopping = threading.Event()
        self.why = ""  #: the head stands still; empty: it does not

    def append(self, batch: Sequence[AnyEvent]) -> None:
        """Returns when the batch is on disk.

        Raises:
            Unwritable: the platform is to stop, and does so without the batch: the agent keeps its events.
        """
        self._insist(lambda: self._journal.append(batch))

    def amend(self, seq: int, batch: Sequence[AnyEvent]) -> None:
        """Do the same with a batch that takes the place of another."""
        self._insist(lambda: self._journal.amend(seq, batch))

    def finish(
        self,
        seq: int,
        digest: str,
        ended: Sequence[JobView],
        stories: Sequence[tuple[str, Story]],
        deliveries: Sequence[Delivery],
    ) -> set[str]:
        """Do the same with what came of a batch; see `SqlJournal.finish`."""
        return self._insist(lambda: self._journal.finish(seq, digest, ended, stories, deliveries))

    def _insist(self, write: Callable[[], T]) -> T:
        while True:
            try:
                written = write()
            except Unwritable as error:
                self._note(str(error))
                if self._is_stopping.wait(RETRY_S):
                    raise
            else:
                self._note("")
                return written

    def stop(self) -> None:
        """End the wait for a writable journal. May be called from any thread."""
        self._is_stopping.set()

    def refuse_while_stalled(self) -> None:
        """Raises Unwritable: a request would wait until there is room."""
        if self.why:
            raise Unwritable(f"the platform stands still: {self.why}; jobs that run train on")

    def _note(self, why: str) -> None:
        if why != self.why:
            self.why = why
            log.warning("the platform %s", f"stands still: {why}" if why else "goes on")
            self._tell(why)

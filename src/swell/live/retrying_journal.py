"""While the journal cannot be written the head stands still: nothing is done that is not on disk before."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from swell.live.ports import AmendableJournal
from swell.model.errors import Unwritable
from swell.model.event import AnyEvent

#: Between two tries.
RETRY_S = 0.5

log = logging.getLogger("swell.platform")


class RetryingJournal:
    """Waits for room on the disk. `tell` hears why, and an empty text when it is over."""

    def __init__(self, journal: AmendableJournal, tell: Callable[[str], None]) -> None:
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

    def _insist(self, write: Callable[[], None]) -> None:
        while True:
            try:
                write()
            except Unwritable as error:
                self._note(str(error))
                if self._is_stopping.wait(RETRY_S):
                    raise
            else:
                self._note("")
                return

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

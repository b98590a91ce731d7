"""The head's side: a transaction is on the standby's disk before anyone is told what follows from it.

A standby that is away, or slow, stops the head for `WAIT_S` at most. The head goes on without it then, says
so, and waits for no transaction until the standby has them all again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import BinaryIO, Protocol

from swell.model.lengths import span
from swell.standby.contents import ChangedFiles
from swell.standby.messages import ChangesMade, JournalEnded, JournalPart, ToStandby
from swell.store.errors import StateError
from swell.store.statements import Statement

#: The head waits so long for the standby at one transaction.
WAIT_S = 2.0
#: Files that no transaction goes with are looked at so often; a standby that is gone is noticed by that.
LOOK_S = 1.0
#: Between two tries to reach the standby.
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.2, 5.0
PART_BYTES = 1 << 20
#: Of transactions that the standby has yet to take: behind by more it begins again with the whole journal.
MOST_WAITING = 20_000

log = logging.getLogger("swell.standby")


class StandbyError(Exception):
    """The standby cannot be reached, or does not take the copy; the text names the remedy."""


class StandbyLine(Protocol):
    """A line to the standby that has let this head in."""

    def tell(self, message: ToStandby) -> None:
        """Returns when the standby has it on its disk. Raises StandbyError, OSError."""


OpenLine = Callable[[], AbstractContextManager[StandbyLine]]
CopyJournal = Callable[[Path, Callable[[], None]], None]


class CopySender:
    """A thread that keeps a standby up to date. Calls of `commit` come from who holds the journal's lock."""

    def __init__(
        self,
        folder: Path,
        address: str,
        open_line: OpenLine,
        wait_s: float = WAIT_S,
        look_s: float = LOOK_S,
    ) -> None:
        """`folder`: of the state. `address`: of the standby, for people."""
        self._folder, self._address, self._open_line = folder, address, open_line
        self._wait_s, self._look_s = wait_s, look_s
        self._changed = threading.Condition()
        self._waiting: list[Sequence[Statement]] = []  #: committed, and not on the standby's disk
        self._num_committed = self._num_taken = 0  #: transactions of the present line
        self._is_fed = False  #: the line has a beginning, which later transactions continue
        self._is_up_to_date = self._is_stopping = False
        self._why = "it was not reached yet"
        self._thread: threading.Thread | None = None

    @property
    def notice(self) -> str:
        """What the owner of the platform should know; empty: the copy is up to date."""
        if self._is_up_to_date:
            return ""
        return (
            f"the copy at {self._address} is behind ({self._why}): what is acknowledged now is lost if this "
            "machine is"
        )

    def commit(self, transaction: Sequence[Statement]) -> None:
        """It is on the standby's disk when this returns, unless the standby is behind."""
        with self._changed:
            if not self._is_fed or not transaction:
                return
            self._waiting.append(transaction)
            self._num_committed += 1
            number = self._num_committed
            self._changed.notify_all()
            if not self._is_up_to_date:
                if len(self._waiting) > MOST_WAITING:
                    self._drop_waiting()
                return
            self._changed.wait_for(lambda: self._num_taken >= number or not self._is_up_to_date, self._wait_s)
            if self._is_up_to_date and self._num_taken < number:
                self._fall_behind(f"it took longer than {span(self._wait_s)}")

    def start(self, copy_journal: CopyJournal) -> None:
        """`copy_journal`: see `SqlJournal.copy`."""
        self._thread = threading.Thread(
            target=self._run, args=(copy_journal,), name="swell-copy", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """What is committed by now is on the standby's disk, if that can be within the time of one wait."""
        with self._changed:
            self._changed.wait_for(lambda: not self._waiting or not self._is_up_to_date, self._wait_s)
            self._is_stopping = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(self._wait_s)

    # ------------------------------------------------------------ its thread
    def _run(self, copy_journal: CopyJournal) -> None:
        try:
            self._keep_fed(copy_journal)
        finally:
            self._lose("the platform ends")

    def _keep_fed(self, copy_journal: CopyJournal) -> None:
        pause_s = FIRST_PAUSE_S
        while not self._is_stopping:
            try:
                with self._open_line() as line:
                    self.feed(line, copy_journal)
            except (StandbyError, StateError, OSError) as error:
                pause_s = FIRST_PAUSE_S if self._is_fed else min(2 * pause_s, LONGEST_PAUSE_S)
                self._lose(str(error))
            with self._changed:
                self._changed.wait_for(lambda: self._is_stopping, pause_s)

    def feed(self, line: StandbyLine, copy_journal: CopyJournal) -> None:
        """All that there is, then what changes, until this is stopped.

        Raises StandbyError, StateError, OSError.
        """
        files = ChangedFiles(self._folder)
        _tell_changed(line, files)
        with self._copied(copy_journal) as copy:
            while part := copy.read(PART_BYTES):
                line.tell(JournalPart(content=part))
        line.tell(JournalEnded(files=files.names))
        while not self._is_stopping:
            transactions = self._due()
            # Files first, as they were when the last of these was committed, or later: a host that a command
            # of theirs names is among those that the next head waits for.
            _tell_changed(line, files)
            line.tell(ChangesMade(transactions=[list(one) for one in transactions]))
            self._note_taken(len(transactions))
            self._await_change()

    @contextmanager
    def _copied(self, copy_journal: CopyJournal) -> Iterator[BinaryIO]:
        """The journal as it is now; what is committed from now on waits for this line."""
        path = self._folder / ".journal.db.copied"
        copy_journal(path, self._begin)
        with path.open("rb") as copy:
            path.unlink()
            yield copy

    def _begin(self) -> None:
        with self._changed:
            self._waiting.clear()
            self._num_committed = self._num_taken = 0
            self._is_fed = True

    def _due(self) -> list[Sequence[Statement]]:
        """Raises StandbyError: there were too many to wait for."""
        with self._changed:
            if not self._is_fed:
                raise StandbyError(f"it fell behind by more than {MOST_WAITING} transactions")
            return list(self._waiting)

    def _note_taken(self, number: int) -> None:
        with self._changed:
            del self._waiting[:number]
            self._num_taken += number
            if not self._waiting and not self._is_up_to_date:
                self._is_up_to_date = True
                log.info("the copy at %s is up to date", self._address)
            self._changed.notify_all()

    def _await_change(self) -> None:
        with self._changed:
            self._changed.wait_for(
                lambda: self._waiting or self._is_stopping or not self._is_fed, self._look_s
            )

    # ------------------------------------------------------------ a standby that is away
    def _lose(self, why: str) -> None:
        with self._changed:
            self._drop_waiting()
            self._fall_behind(why)

    def _drop_waiting(self) -> None:
        self._is_fed = False
        self._waiting.clear()

    def _fall_behind(self, why: str) -> None:
        """Nobody waits for it any longer."""
        if not self._is_stopping and (self._is_up_to_date or why != self._why):
            log.warning("the copy at %s is behind: %s", self._address, why)
        self._is_up_to_date, self._why = False, why
        self._changed.notify_all()


def _tell_changed(line: StandbyLine, files: ChangedFiles) -> None:
    for file in files.take():
        line.tell(file)

"""The journal: batches of events, written before commands are performed, also of a simulated run."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import msgspec

from swell.model.coding import decoder, encode
from swell.model.event import AnyEvent, JobSubmitted
from swell.model.view import JobView, Story
from swell.store.archive import Archive, put_jobs, put_stories
from swell.store.curves import CurvePoint, CurveStore, taken_off
from swell.store.database import as_text, bytes_on_disk
from swell.store.errors import DamagedState, StateError, remedy

#: Batches read at a time: a long replay neither holds them all nor keeps a transaction open.
PAGE = 500
#: Notes the digest of a batch, unless that was done before.
ONCE = "UPDATE batches SET digest = ? WHERE seq = ? AND digest IS NULL"

_decode: Callable[[str], list[AnyEvent]] = decoder(list[AnyEvent]).decode
_decode_submission: Callable[[str], JobSubmitted] = decoder(JobSubmitted).decode


SUFFIX = ".db"


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One batch, and the digest of the commands that followed it."""

    seq: int
    batch: Sequence[AnyEvent]
    digest: str | None  #: None: what came of it is yet to be kept


class SavedMessage(NamedTuple):
    """A message for an address."""

    id: str
    job_id: str  #: of which it tells
    message: str


@dataclass(frozen=True, slots=True)
class JournalHistory:
    """A state and everything that happened after it."""

    state: bytes | None  #: None: the journal was never folded, begin with an empty head
    seq: int  #: of the last batch inside `state`; 0 if there is none
    entries: Iterable[JournalEntry]  #: later batches, oldest first, each once


class SqlJournal(Archive):
    """A journal in a database. `append` and `fold` belong to the head's thread, reading to any.

    Raises:
        StateError: another version of Swell has written it.
        DamagedState: it cannot be read, now or in any later call.
        StateUnwritable: the folder is not writable, the disk is full. The call may be made again.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        #: Batches of which nothing came but commands, and the digests of these: written with what is next.
        self._uneventful: list[tuple[str, int]] = []
        try:
            # A fold deletes its batches: without the fold's own number, numbers would be given twice.
            highest = "SELECT max(seq) FROM (SELECT seq FROM batches UNION ALL SELECT seq FROM state)"
            self.last_seq: int = (
                self.rows(highest)[0][0] or 0
            )  #: number of the last batch; 0 before the first
            self._curves = CurveStore(self)
        except BaseException:
            self.close()
            raise

    def append(self, batch: Sequence[AnyEvent]) -> None:
        """Keep the batch; it is on disk when this returns, and its number is `last_seq`.

        What it tells of curves is kept with them, and left out of the batch.
        """
        without_curves, told = taken_off(batch)
        seq, events = self.last_seq + 1, encode(without_curves).decode()
        new_jobs = [
            (event.job_id, event.origin.key or None, encode(event).decode())
            for event in batch
            if isinstance(event, JobSubmitted)
        ]
        with self.writing() as connection:
            connection.executemany(ONCE, self._uneventful)
            # Again, after a call that failed: the batch may have been written, and not where the path leads.
            connection.execute("INSERT OR REPLACE INTO batches (seq, events) VALUES (?, ?)", (seq, events))
            # A second one with the same id is stale, and the head drops it.
            connection.executemany(
                "INSERT OR IGNORE INTO jobs (id, key, submission) VALUES (?, ?, ?)", new_jobs
            )
            written = self._curves.put(connection, seq, told)
        self._uneventful.clear()
        self._curves.was_put(seq, told, written)
        self.last_seq = seq

    def amend(self, seq: int, batch: Sequence[AnyEvent]) -> None:
        """Keep this in the place of batch `seq`, which the head could not handle as it was.

        What it tells of curves was kept with the first one.
        """
        events = encode(taken_off(batch)[0]).decode()
        with self.writing() as connection:
            connection.execute("UPDATE batches SET events = ?, digest = NULL WHERE seq = ?", (events, seq))

    def finish(
        self,
        seq: int,
        digest: str,
        ended: Sequence[JobView] = (),
        stories: Sequence[tuple[str, Story]] = (),
        deliveries: Sequence[SavedMessage] = (),
    ) -> set[str]:
        """Keep what came of batch `seq`, all or nothing, and once: no effect if that was done before.

        A power cut may undo it until the next batch is on disk; the batch is handled again then. Nothing is
        written yet if nothing came of the batch but commands.

        Args:
            digest: of the commands, so that a replay can be compared.
            stories: (job id, story).

        Returns the ids of those deliveries that are new.
        """
        if not (ended or stories or deliveries):
            self._uneventful.append((digest, seq))
            return set()
        with self.writing(is_flushed=False) as connection:
            if not connection.execute(ONCE, (digest, seq)).rowcount:
                return set()
            put_jobs(connection, ended)
            put_stories(connection, stories)
            return _put_deliveries(connection, deliveries)

    def history(self) -> JournalHistory:
        """The last fold's state and what came after."""
        latest = "SELECT seq, state FROM state ORDER BY seq DESC LIMIT 1"
        if not (fold := self.rows(latest)):
            return JournalHistory(None, 0, self._entries(0))
        ((seq, state),) = fold
        try:
            return JournalHistory(zlib.decompress(state), seq, self._entries(seq))
        except (TypeError, zlib.error) as error:
            raise self._damaged(f"its folded state cannot be read: {error}") from error

    def fold(self, state: bytes) -> None:
        """Replace every batch so far by `state`, the head's state (JSON) after the last of them."""
        self.fold_to(self.last_seq, packed(state))

    def fold_to(self, seq: int, packed_state: bytes) -> None:
        """Replace the batches up to and with `seq` by the head's state after that one.

        What came of them is kept, and later ones stay.
        """
        with self.writing() as connection:
            connection.execute("DELETE FROM state")
            connection.execute("INSERT INTO state VALUES (?, ?)", (seq, packed_state))
            connection.execute("DELETE FROM batches WHERE seq <= ?", (seq,))
        self.give_back_space()

    def submission(self, job_id: str) -> JobSubmitted | None:
        """Return the job's submission, whether it has ended or not; None: there is none."""
        return next(iter(self._submissions("id = ?", job_id)), None)

    def submissions(self) -> list[JobSubmitted]:
        """Return the submissions of all jobs that were not pruned."""
        return self._submissions("TRUE")

    def submission_of_key(self, key: str) -> JobSubmitted | None:
        """The one that came with this idempotency key; None if none did."""
        return next(iter(self._submissions("key = ?", key)), None)

    def _submissions(self, condition: str, *values: str) -> list[JobSubmitted]:
        wanted = f"SELECT submission FROM jobs WHERE submission IS NOT NULL AND {condition}"
        return self.texts(_decode_submission, wanted, *values)

    def knows(self, job_id: str) -> bool:
        """Whether the id was ever given to a job, as far as the journal remembers."""
        return bool(self.rows("SELECT 1 FROM jobs WHERE id = ?", job_id))

    def curves(self, job_id: str, names: Collection[str] = ()) -> dict[str, list[CurvePoint]]:
        """The metrics of a job by name, sorted by it, oldest point first; `names`: only those, none: all."""
        return self._curves.of_job(job_id, names)

    def prune(self, job_ids: Sequence[str], at_s: float) -> None:
        """Remove archived jobs, with all that is kept of them; `pruned_s` remembers their ids."""
        self._curves.forget(job_ids)
        super().prune(job_ids, at_s)

    @property
    def is_blank(self) -> bool:
        """Nothing was ever written, or all is lost."""
        return self.last_seq == 0 and not self.rows("SELECT 1 FROM jobs LIMIT 1")

    @property
    def bytes_on_disk(self) -> int:
        """Size of the journal with its write-ahead log."""
        return bytes_on_disk(self.path)

    # ------------------------------------------------------------ deliveries
    def put_deliveries(self, deliveries: Sequence[SavedMessage]) -> set[str]:
        """Keep messages that are to be delivered; returns the ids of those that are new."""
        with self.writing() as connection:
            return _put_deliveries(connection, deliveries)

    def deliveries(self) -> list[str]:
        """Messages that are yet to be delivered, oldest first."""
        waiting = "SELECT message FROM deliveries WHERE message IS NOT NULL ORDER BY rowid"
        return self.texts(str, waiting)

    def end_delivery(self, delivery_id: str, job_id: str, story: Story | None) -> None:
        """It was delivered, or is given up. Its job's story says so, if there is something to say."""
        is_pruned = "SELECT 1 FROM jobs WHERE id = ? AND pruned_s IS NOT NULL"
        with self.writing(is_flushed=False) as connection:
            if connection.execute(is_pruned, (job_id,)).fetchone():
                connection.execute("DELETE FROM deliveries WHERE id = ?", (delivery_id,))
                return
            connection.execute("UPDATE deliveries SET message = NULL WHERE id = ?", (delivery_id,))
            if story is not None:
                put_stories(connection, [(job_id, story)])

    def _entries(self, after: int) -> Iterator[JournalEntry]:
        later = "SELECT seq, events, digest FROM batches WHERE seq > ? ORDER BY seq LIMIT ?"
        while rows := self.rows(later, after, PAGE):
            for seq, events, digest in rows:
                after += 1
                if seq != after:
                    raise self._damaged(f"batch {after} is missing")
                yield JournalEntry(seq, self._read(seq, events), digest)

    def _read(self, seq: int, events: object) -> list[AnyEvent]:
        try:
            return _decode(as_text(events))
        except msgspec.MsgspecError as error:
            raise self._damaged(f"batch {seq} cannot be read: {error}") from error

    def _damaged(self, why: str) -> DamagedState:
        return DamagedState(f"{self.path} is damaged ({why})", remedy(self.path))


def packed(state: bytes) -> bytes:
    """A head's state as a fold keeps it. Jobs resemble each other: it takes a tenth of the room, or less."""
    return zlib.compress(state, level=1)


def _put_deliveries(connection: sqlite3.Connection, deliveries: Sequence[SavedMessage]) -> set[str]:
    insert = "INSERT OR IGNORE INTO deliveries VALUES (?, ?, ?)"
    return {one.id for one in deliveries if connection.execute(insert, one).rowcount}


class RunRecord:
    """Making one touches nothing."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def policies(self) -> list[str]:
        """Those that the run was made under, in alphabetical order. Raises StateError if it is no record."""
        found = sorted(file.stem for file in self.folder.glob(f"*{SUFFIX}"))
        if not found:
            raise StateError(
                f"{self.folder} holds no record of a run; write one with "
                "`swell simulate ... --stories FOLDER`"
            )
        return found

    def write(
        self, policy: str, state: bytes, jobs: Sequence[JobView], stories: Sequence[tuple[str, Story]]
    ) -> Path:
        """One policy's, in place of an earlier one. Returns the file. Raises StateError, OSError."""
        self.folder.mkdir(parents=True, exist_ok=True)
        file = self._file(policy)
        file.unlink(missing_ok=True)
        with closing(SqlJournal(file)) as journal:
            journal.fold(state)
            journal.keep(jobs, stories)
        return file

    def jobs(self, policy: str) -> list[JobView]:
        """Oldest first. Raises StateError."""
        with closing(self._open(policy)) as journal:
            return journal.archived_jobs()

    def stories(self, policy: str, job_id: str) -> list[Story]:
        """Oldest first; empty if there are none. Raises StateError."""
        with closing(self._open(policy)) as journal:
            return journal.stories(job_id)

    def _open(self, policy: str) -> SqlJournal:
        known = self.policies()
        if policy not in known:
            raise StateError(f"the run in {self.folder} has no policy {policy!r}; it has {', '.join(known)}")
        return SqlJournal(self._file(policy))

    def _file(self, policy: str) -> Path:
        return self.folder / f"{policy}{SUFFIX}"

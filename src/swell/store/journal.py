"""The journal: batches of events, written before commands are performed."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import msgspec

from swell.model.coding import encode
from swell.model.event import AnyEvent, JobSubmitted
from swell.model.job_query import EVERY_JOB
from swell.model.view import JobView, Story
from swell.store import database
from swell.store.archive import Archive, text_decoder
from swell.store.curve import CurvePoint
from swell.store.curves import CurveBook, taken_off
from swell.store.database import Database
from swell.store.errors import DamagedState, remedy

#: Batches read at a time: a long replay neither holds them all nor keeps a transaction open.
PAGE = 500

_decode: Callable[[object], list[AnyEvent]] = text_decoder(list[AnyEvent])
_decode_submission: Callable[[object], JobSubmitted] = text_decoder(JobSubmitted)


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One batch, and the digest of the commands that followed it."""

    seq: int
    batch: Sequence[AnyEvent]
    digest: str | None  #: None: what came of it is yet to be kept


class Delivery(NamedTuple):
    """A message for an address."""

    id: str
    job_id: str  #: of which it tells
    message: str


@dataclass(frozen=True, slots=True)
class JournalHistory:
    """A state and everything that happened after it."""

    state: bytes | None  #: None: the journal was never folded, begin with an empty head
    seq: int  #: of the last batch inside `state`; 0 if there is none
    entries: Iterable[JournalEntry]  #: later batches, oldest first; may be iterated more than once


class SqlJournal:
    """A journal in a database. `append` and `fold` belong to the head's thread, reading to any.

    Raises:
        OtherVersion: another version of Swell has written it.
        DamagedState: it cannot be read, now or in any later call.
        StateUnwritable: the folder is not writable, the disk is full. The call may be made again.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._database = Database(path)
        try:
            self._database.check()
            self._database.create()
            with self._database.reading() as connection:
                self._last_seq = self._find_last_seq(connection)
            if not path.stat().st_size:  # all is in its log, and an empty journal is taken for lost
                self._database.give_back_space()
            self._curves = CurveBook(self._database)
        except BaseException:
            self._database.close()
            raise
        self._archive = Archive(self._database)

    def append(self, batch: Sequence[AnyEvent]) -> None:
        """Keep the batch; it is on disk when this returns, and its number is `last_seq`.

        What it tells of curves is kept with them, and left out of the batch.
        """
        without_curves, told = taken_off(batch)
        seq, events = self._last_seq + 1, encode(without_curves).decode()
        new_jobs = [
            (event.job_id, event.origin.key or None, encode(event).decode())
            for event in batch
            if isinstance(event, JobSubmitted)
        ]
        with self._database.writing() as connection:
            # Again, after a call that failed: the batch may have been written, and not where the path leads.
            connection.execute("INSERT OR REPLACE INTO batches (seq, events) VALUES (?, ?)", (seq, events))
            # A second one with the same id is stale, and the head drops it.
            connection.executemany(
                "INSERT OR IGNORE INTO jobs (id, key, submission) VALUES (?, ?, ?)", new_jobs
            )
            written = self._curves.put(connection, seq, told)
        self._curves.was_put(seq, told, written)
        self._last_seq = seq

    def amend(self, seq: int, batch: Sequence[AnyEvent]) -> None:
        """Keep this in the place of batch `seq`, which the head could not handle as it was.

        What it tells of curves was kept with the first one.
        """
        events = encode(taken_off(batch)[0]).decode()
        with self._database.writing() as connection:
            connection.execute("UPDATE batches SET events = ?, digest = NULL WHERE seq = ?", (events, seq))

    def finish(
        self,
        seq: int,
        digest: str,
        ended: Sequence[JobView] = (),
        stories: Sequence[tuple[str, Story]] = (),
        deliveries: Sequence[Delivery] = (),
    ) -> set[str]:
        """Keep what came of batch `seq`, all or nothing, and once: no effect if that was done before.

        A power cut may undo it until the next batch is on disk; the batch is handled again then.

        Args:
            digest: of the commands, so that a replay can be compared.
            stories: (job id, story).

        Returns the ids of those deliveries that are new.
        """
        once = "UPDATE batches SET digest = ? WHERE seq = ? AND digest IS NULL"
        with self._database.writing(is_flushed=False) as connection:
            if not connection.execute(once, (digest, seq)).rowcount:
                return set()
            self._archive.put_jobs(connection, ended)
            self._archive.put_stories(connection, stories)
            return _put_deliveries(connection, deliveries)

    def keep(self, ended: Sequence[JobView], stories: Sequence[tuple[str, Story]] = ()) -> None:
        """Archive ended jobs, in place of what the archive has of them, and (job id, story) pairs."""
        with self._database.writing() as connection:
            self._archive.put_jobs(connection, ended)
            self._archive.put_stories(connection, stories)

    def history(self) -> JournalHistory:
        """The last fold's state and what came after."""
        latest = "SELECT seq, state FROM state ORDER BY seq DESC LIMIT 1"
        with self._database.reading() as connection:
            fold = connection.execute(latest).fetchone()
        if fold is None:
            return JournalHistory(None, 0, _Entries(self, 0))
        seq, state = fold
        if not isinstance(state, str):
            raise self._damaged("its folded state is no text")
        return JournalHistory(state.encode(), seq, _Entries(self, seq))

    def fold(self, state: bytes) -> int:
        """Replace every batch so far by `state`, the head's state (JSON) after the last of them.

        What came of them is kept. Returns the number of the last batch folded.
        """
        with self._database.writing() as connection:
            connection.execute("DELETE FROM state")
            connection.execute("INSERT INTO state VALUES (?, ?)", (self._last_seq, state.decode()))
            connection.execute("DELETE FROM batches WHERE seq <= ?", (self._last_seq,))
        self._database.give_back_space()
        return self._last_seq

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
        with self._database.reading() as connection:
            return [_decode_submission(event) for (event,) in connection.execute(wanted, values)]

    def knows(self, job_id: str) -> bool:
        """Whether the id was ever given to a job, as far as the journal remembers."""
        with self._database.reading() as connection:
            return connection.execute("SELECT 1 FROM jobs WHERE id = ?", (job_id,)).fetchone() is not None

    def stories(self, job_id: str) -> list[Story]:
        """Archived stories of a job, oldest first; empty if there are none."""
        return self._archive.stories(job_id)

    def curves(self, job_id: str, names: Collection[str] = ()) -> dict[str, list[CurvePoint]]:
        """The metrics of a job by name, sorted by it, oldest point first; `names`: only those, none: all."""
        return self._curves.of_job(job_id, names)

    @property
    def archive(self) -> Archive:
        """Jobs that have ended, from the end of the turn in which they did."""
        return self._archive

    def archived_jobs(self) -> list[JobView]:
        """All jobs of the archive, oldest first."""
        return self._archive.find(EVERY_JOB)

    def prune(self, job_ids: Sequence[str], at_s: float) -> None:
        """Remove archived jobs, with all that is kept of them; `pruned_s` remembers their ids."""
        self._curves.forget(job_ids)
        self._archive.prune(job_ids, at_s)

    def pruned_s(self, job_id: str) -> float | None:
        """When the job was pruned; None if it was not."""
        return self._archive.pruned_s(job_id)

    @property
    def is_blank(self) -> bool:
        """Nothing was ever written, or all is lost."""
        with self._database.reading() as connection:
            return self._last_seq == 0 and self._archive.is_empty(connection)

    @property
    def notices(self) -> tuple[str, ...]:
        """What the owner of the platform should know about the file."""
        return self._database.notices

    @property
    def last_seq(self) -> int:
        """Number of the last batch appended; 0 before the first."""
        return self._last_seq

    @property
    def bytes_on_disk(self) -> int:
        """Size of the journal with its write-ahead log."""
        return database.bytes_on_disk(self._path)

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    # ------------------------------------------------------------ deliveries
    def put_deliveries(self, deliveries: Sequence[Delivery]) -> set[str]:
        """Keep messages that are to be delivered; returns the ids of those that are new."""
        with self._database.writing() as connection:
            return _put_deliveries(connection, deliveries)

    def deliveries(self) -> list[str]:
        """Messages that are yet to be delivered, oldest first."""
        waiting = "SELECT message FROM deliveries WHERE message IS NOT NULL ORDER BY rowid"
        with self._database.reading() as connection:
            return [message for (message,) in connection.execute(waiting)]

    def end_delivery(self, delivery_id: str, job_id: str, story: Story | None) -> None:
        """It was delivered, or is given up. Its job's story says so, if there is something to say."""
        is_pruned = "SELECT 1 FROM jobs WHERE id = ? AND pruned_s IS NOT NULL"
        with self._database.writing(is_flushed=False) as connection:
            if connection.execute(is_pruned, (job_id,)).fetchone():
                connection.execute("DELETE FROM deliveries WHERE id = ?", (delivery_id,))
                return
            connection.execute("UPDATE deliveries SET message = NULL WHERE id = ?", (delivery_id,))
            if story is not None:
                self._archive.put_stories(connection, [(job_id, story)])

    def _page(self, after: int) -> list[JournalEntry]:
        later = "SELECT seq, events, digest FROM batches WHERE seq > ? ORDER BY seq LIMIT ?"
        with self._database.reading() as connection:
            rows = connection.execute(later, (after, PAGE)).fetchall()
        for place, (seq, _, _) in enumerate(rows):
            if seq != after + 1 + place:
                raise self._damaged(f"batch {after + 1 + place} is missing")
        return [JournalEntry(seq, self._read(seq, events), digest) for seq, events, digest in rows]

    def _read(self, seq: int, events: object) -> list[AnyEvent]:
        try:
            return _decode(events)
        except msgspec.MsgspecError as error:
            raise self._damaged(f"batch {seq} cannot be read: {error}") from error

    def _damaged(self, why: str) -> DamagedState:
        return DamagedState(f"{self._path} is damaged ({why}): {remedy(self._path)}")

    def _find_last_seq(self, connection: sqlite3.Connection) -> int:
        # A fold deletes its batches: without the fold's own number, numbers would be given twice.
        highest = "SELECT coalesce(max(seq), 0) FROM"
        found = [connection.execute(f"{highest} {table}").fetchone()[0] for table in ("batches", "state")]
        return int(max(found))


def _put_deliveries(connection: sqlite3.Connection, deliveries: Sequence[Delivery]) -> set[str]:
    insert = "INSERT OR IGNORE INTO deliveries VALUES (?, ?, ?)"
    return {one.id for one in deliveries if connection.execute(insert, one).rowcount}


@dataclass(frozen=True, slots=True)
class _Entries:
    """Entries after a batch, read page by page each time they are asked for."""

    journal: SqlJournal
    after: int

    def __iter__(self) -> Iterator[JournalEntry]:
        after = self.after
        while page := self.journal._page(after):
            yield from page
            after = page[-1].seq

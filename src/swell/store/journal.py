"""The journal: batches of events, written before commands are performed."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import sqlalchemy as sa

from swell.model.coding import decoder, encode
from swell.model.event import AnyEvent, JobSubmitted
from swell.model.job_query import EVERY_JOB
from swell.model.view import JobView, Story
from swell.store import sqlite
from swell.store.archive import Archive
from swell.store.curve import CurvePoint
from swell.store.curves import CurveBook, CurveNews, taken_off
from swell.store.database import Database
from swell.store.errors import DamagedState, StateUnwritable, remedy
from swell.store.schema import (
    batches,
    create,
    folds,
    submission_row,
    submissions,
)

#: Batches read at a time: a long replay neither holds them all nor keeps a transaction open.
PAGE = 500

#: Each statement of a turn is put together once: that takes longer than to execute it.
#: Again, after a call that failed: the batch may have been written, and not where the path leads.
_WRITE_BATCH = batches.insert().prefix_with("OR REPLACE")
_ADD_SUBMISSIONS = submissions.insert().prefix_with("OR IGNORE")
_WRITE_DIGESTS = (
    batches.update().where(batches.c.seq == sa.bindparam("row")).values(digest=sa.bindparam("commands"))
)

_READ = sa.select(batches.c.seq, batches.c.events, batches.c.digest)

_decode: Callable[[str], list[AnyEvent]] = decoder(list[AnyEvent]).decode
_decode_submission: Callable[[str], JobSubmitted] = decoder(JobSubmitted).decode


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One batch, and the digest of the commands that followed it, if one was noted."""

    seq: int
    batch: Sequence[AnyEvent]
    digest: str | None


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
        self._unwritten: dict[int, str] = {}
        self._database = Database(path)
        try:
            self._database.check()
            with self._database.writing() as connection:
                create(connection, where=path)
                self._last_seq = self._find_last_seq(connection)
            if not path.stat().st_size:  # all is in its log, and an empty journal is taken for lost
                self._database.give_back_space()
            self._curves = CurveBook(self._database)
        except BaseException:
            self._database.close()
            raise
        self._archive = Archive(self._database)
        self._given: _Given | None = None
        self._giving = threading.Lock()

    def append(self, batch: Sequence[AnyEvent]) -> None:
        """Keep the batch; it is on disk when this returns, and its number is `last_seq`.

        What it tells of curves is kept with them, and left out of the batch.
        """
        without_curves, told = taken_off(batch)
        seq, events = self._last_seq + 1, encode(without_curves).decode()
        new_jobs = [event for event in batch if isinstance(event, JobSubmitted)]
        with self._database.writing() as connection:
            connection.execute(_WRITE_BATCH, {"seq": seq, "events": events})
            if new_jobs:  # a second one with the same id is stale, and the head drops it
                rows = [submission_row(event) for event in new_jobs]
                connection.execute(_ADD_SUBMISSIONS, rows)
            self._curves.put(connection, seq, told)
            self._write_digests(connection)
        self._curves.was_put(seq, told)
        self._last_seq = seq
        self._unwritten.clear()
        with self._giving:
            if self._given is not None:
                self._given.add((event.job_id, event.origin.key) for event in new_jobs)

    def amend(self, seq: int, batch: Sequence[AnyEvent]) -> None:
        """Keep this in the place of batch `seq`, which the head could not handle as it was.

        What it tells of curves was kept with the first one.
        """
        events = encode(taken_off(batch)[0]).decode()
        row = {"events": events, "digest": None}
        with self._database.writing() as connection:
            connection.execute(batches.update().where(batches.c.seq == seq).values(row))
        self._unwritten.pop(seq, None)

    def note_commands(self, seq: int, digest: str) -> None:
        """What the head commanded after batch `seq`, so that a replay can be compared.

        Written together with the next batch: it may be lost in a crash and costs no disk flush.
        """
        self._unwritten[seq] = digest

    def history(self) -> JournalHistory:
        """The last fold's state and what came after."""
        with self._database.reading() as connection:
            fold = connection.execute(sa.select(folds).order_by(folds.c.seq.desc()).limit(1)).first()
        if fold is None:
            return JournalHistory(None, 0, _Entries(self, 0))
        if not isinstance(fold.state, str):
            raise self._damaged("its folded state is no text")
        return JournalHistory(fold.state.encode(), fold.seq, _Entries(self, fold.seq))

    def fold(
        self, state: bytes, ended: Sequence[JobView] = (), stories: Sequence[tuple[str, Story]] = ()
    ) -> int:
        """Replace every batch so far by `state`, the head's state (JSON) after the last of them.

        `ended` jobs, which the state may leave out from now on, and `stories` (job id, story) go to the
        archive in the same transaction. Returns the number of the last batch folded.
        """
        row = {"seq": self._last_seq, "state": state.decode()}
        with self._database.writing() as connection:
            connection.execute(folds.delete())
            connection.execute(folds.insert(), row)
            connection.execute(batches.delete().where(batches.c.seq <= self._last_seq))
            self._archive.put_jobs(connection, ended)
            self._archive.put_stories(connection, stories)
        self._unwritten.clear()
        self._database.give_back_space()
        return self._last_seq

    def submission(self, job_id: str) -> JobSubmitted | None:
        """Return the job's submission, whether it has ended or not; None: there is none."""
        return self._submission(submissions.c.job_id == job_id)

    def submissions(self) -> list[JobSubmitted]:
        """Return the submissions of all jobs that were not pruned."""
        with self._database.reading() as connection:
            rows = connection.execute(sa.select(submissions.c.event)).all()
            return [_decode_submission(row.event) for row in rows]

    def submission_of_key(self, key: str) -> JobSubmitted | None:
        """The one that came with this idempotency key; None if none did."""
        with self._giving:
            is_known = key in self._all_given().keys
        return self._submission(submissions.c.key == key) if is_known else None

    def knows(self, job_id: str) -> bool:
        """Whether the id was ever given to a job, as far as the journal remembers."""
        with self._giving:
            return job_id in self._all_given().ids

    def _all_given(self) -> _Given:
        if self._given is None:
            self._given = _Given()
            with self._database.reading() as connection:
                rows = connection.execute(sa.select(submissions.c.job_id, submissions.c.key))
                self._given.add((row.job_id, row.key) for row in rows)
                self._given.ids.update(self._archive.ids(connection))
        return self._given

    def _submission(self, condition: sa.ColumnElement[bool]) -> JobSubmitted | None:
        with self._database.reading() as connection:
            row = connection.execute(sa.select(submissions).where(condition)).first()
            return None if row is None else _decode_submission(row.event)

    def add_stories(self, stories: Sequence[tuple[str, Story]]) -> None:
        """Archive (job id, story) pairs; one that is there already is not added again."""
        self._archive.add_stories(stories)

    def stories(self, job_id: str) -> list[Story]:
        """Archived stories of a job, oldest first; empty if there are none."""
        return self._archive.stories(job_id)

    def curves(self, job_id: str, names: Collection[str] = ()) -> dict[str, list[CurvePoint]]:
        """The metrics of a job by name, sorted by it, oldest point first; `names`: only those, none: all."""
        return self._curves.of_job(job_id, names)

    def curves_told(self, since: int | None, job_ids: Collection[str]) -> CurveNews:
        """See `CurveBook.told_since`."""
        return self._curves.told_since(since, job_ids)

    @property
    def archive(self) -> Archive:
        """Jobs that have ended and that the folded state no longer holds."""
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
        return sqlite.bytes_on_disk(self._path)

    def close(self) -> None:
        """Write what `note_commands` has kept, if that can be, and close the file."""
        with contextlib.suppress(StateUnwritable), self._database.writing() as connection:
            self._write_digests(connection)
        self._unwritten.clear()
        self._database.close()

    def _write_digests(self, connection: sa.Connection) -> None:
        if self._unwritten:
            connection.execute(
                _WRITE_DIGESTS,
                [{"row": seq, "commands": digest} for seq, digest in self._unwritten.items()],
            )

    def _page(self, after: int) -> list[JournalEntry]:
        later = _READ.where(batches.c.seq > after).order_by(batches.c.seq).limit(PAGE)
        with self._database.reading() as connection:
            rows = connection.execute(later).all()
        for place, row in enumerate(rows):
            if row.seq != after + 1 + place:
                raise self._damaged(f"batch {after + 1 + place} is missing")
        return [
            JournalEntry(row.seq, self._read(row.seq, row.events), self._unwritten.get(row.seq, row.digest))
            for row in rows
        ]

    def _read(self, seq: int, events: str) -> list[AnyEvent]:
        try:
            return _decode(events)
        except (msgspec.MsgspecError, TypeError) as error:
            raise self._damaged(f"batch {seq} cannot be read: {error}") from error

    def _damaged(self, why: str) -> DamagedState:
        return DamagedState(f"{self._path} is damaged ({why}): {remedy(self._path)}")

    def _find_last_seq(self, connection: sa.Connection) -> int:
        # A fold deletes its batches: without the fold's own number, numbers would be given twice.
        found = [connection.scalar(sa.select(sa.func.max(table.c.seq))) or 0 for table in (batches, folds)]
        if not all(isinstance(seq, int) for seq in found):
            raise self._damaged("the number of a batch is none")
        return max(found)


@dataclass(frozen=True, slots=True)
class _Given:
    """Ids and keys that are not to be given again: to ask the database takes half a millisecond each time."""

    ids: set[str] = field(default_factory=set)
    keys: set[str] = field(default_factory=set)

    def add(self, pairs: Iterable[tuple[str, str | None]]) -> None:
        for job_id, key in pairs:
            self.ids.add(job_id)
            if key:
                self.keys.add(key)


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

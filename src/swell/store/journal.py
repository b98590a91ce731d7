"""The journal: batches of events, written before commands are performed."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import sqlalchemy as sa

from swell.model.coding import decoder, encode
from swell.model.event import AnyEvent
from swell.model.job_query import JobQuery
from swell.model.view import JobView, Story
from swell.store import sqlite
from swell.store.archive import Archive
from swell.store.errors import DamagedState, StateUnwritable
from swell.store.schema import batches, bring_up_to_date, folds

#: Batches read at a time: a long replay neither holds them all nor keeps a transaction open.
PAGE = 500

_decode: Callable[[str], list[AnyEvent]] = decoder(list[AnyEvent]).decode


@dataclass(frozen=True, slots=True)
class Entry:
    """One batch, and the digest of the commands that followed it, if one was noted."""

    seq: int
    batch: Sequence[AnyEvent]
    digest: str | None


@dataclass(frozen=True, slots=True)
class History:
    """A state and everything that happened after it."""

    state: bytes | None  #: None: the journal was never folded, begin with an empty head
    seq: int  #: of the last batch inside `state`; 0 if there is none
    entries: Iterable[Entry]  #: later batches, oldest first; may be iterated more than once


class SqlJournal:
    """A journal in a database. `append` and `fold` belong to the head's thread, reading to any.

    Raises:
        NewerState: a later version of Swell has written it.
        DamagedState: it cannot be read, now or in any later call.
        StateUnwritable: the folder is not writable, the disk is full. The call may be made again.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._engine = sqlite.open_engine(path)
        self._write = threading.Lock()
        self._unwritten: dict[int, str] = {}
        self._is_reserved = False
        with sqlite.explained(path):
            sqlite.check(self._engine)
            with self._engine.begin() as connection:
                bring_up_to_date(connection, where=str(path))
                self._last_seq = _last_seq(connection)
        self._archive = Archive(self._engine, self._write, path)

    def append(self, batch: Sequence[AnyEvent]) -> None:
        """Keep the batch; it is on disk when this returns, and its number is `last_seq`."""
        seq = self._last_seq + 1
        with self._write:
            with sqlite.explained(self._path), self._engine.begin() as connection:
                connection.execute(batches.insert(), {"seq": seq, "events": encode(batch).decode()})
                self._write_digests(connection)
            self._last_seq = seq
            self._unwritten.clear()
            self._reserve()

    def note_commands(self, seq: int, digest: str) -> None:
        """What the head commanded after batch `seq`, so that a replay can be compared.

        Written together with the next batch: it may be lost in a crash and costs no disk flush.
        """
        self._unwritten[seq] = digest

    def replay(self) -> Iterator[Sequence[AnyEvent]]:
        """Every batch since the last fold, oldest first."""
        return (entry.batch for entry in self.history().entries)

    def history(self) -> History:
        """The last fold's state and what came after."""
        with sqlite.explained(self._path), self._engine.connect() as connection:
            fold = connection.execute(sa.select(folds).order_by(folds.c.seq.desc()).limit(1)).first()
        if fold is None:
            return History(None, 0, _Entries(self, 0))
        return History(fold.state.encode(), fold.seq, _Entries(self, fold.seq))

    def fold(
        self, state: bytes, ended: Sequence[JobView] = (), stories: Sequence[tuple[str, Story]] = ()
    ) -> int:
        """Replace every batch so far by `state`, the head's state (JSON) after the last of them.

        `ended` jobs, which the state may leave out from now on, and `stories` (job id, story) go to the
        archive in the same transaction. Returns the number of the last batch folded.
        """
        with self._write, sqlite.explained(self._path):
            with self._engine.begin() as connection:
                connection.execute(folds.delete())
                connection.execute(folds.insert(), {"seq": self._last_seq, "state": state.decode()})
                connection.execute(batches.delete().where(batches.c.seq <= self._last_seq))
                self._archive.put_jobs(connection, ended)
                self._archive.put_stories(connection, stories)
            self._unwritten.clear()
            sqlite.give_back_space(self._engine)
        return self._last_seq

    def add_stories(self, stories: Sequence[tuple[str, Story]]) -> None:
        """Archive (job id, story) pairs; one that is there already is not added again."""
        self._archive.add_stories(stories)

    def stories(self, job_id: str) -> list[Story]:
        """Archived stories of a job, oldest first; empty if there are none."""
        return self._archive.stories(job_id)

    @property
    def archive(self) -> Archive:
        """Jobs that have ended and that the folded state no longer holds."""
        return self._archive

    def archived_jobs(self) -> list[JobView]:
        """All jobs of the archive, oldest first."""
        return self._archive.find(JobQuery())

    def prune(self, job_ids: Sequence[str], at_s: float) -> None:
        """Remove archived jobs and their stories; `pruned_s` remembers their ids."""
        self._archive.prune(job_ids, at_s)

    def pruned_s(self, job_id: str) -> float | None:
        """When the job was pruned; None if it was not."""
        return self._archive.pruned_s(job_id)

    @property
    def last_seq(self) -> int:
        """Number of the last batch appended; 0 before the first."""
        return self._last_seq

    @property
    def bytes_on_disk(self) -> int:
        return sqlite.bytes_on_disk(self._path)

    def close(self) -> None:
        """Write what `note_commands` has kept, if that can be, and close the file."""
        with (
            contextlib.suppress(StateUnwritable),
            self._write,
            sqlite.explained(self._path),
            self._engine.begin() as connection,
        ):
            self._write_digests(connection)
        self._unwritten.clear()
        self._engine.dispose()

    def _reserve(self) -> None:
        """Room for bad times, as soon as there is some."""
        if not self._is_reserved:
            with contextlib.suppress(OSError):
                sqlite.reserve(self._path)
                self._is_reserved = True

    def _write_digests(self, connection: sa.Connection) -> None:
        if self._unwritten:
            of_row = batches.c.seq == sa.bindparam("row")
            connection.execute(
                batches.update().where(of_row).values(digest=sa.bindparam("commands")),
                [{"row": seq, "commands": digest} for seq, digest in self._unwritten.items()],
            )

    def _page(self, after: int) -> list[Entry]:
        later = sa.select(batches).where(batches.c.seq > after).order_by(batches.c.seq).limit(PAGE)
        with sqlite.explained(self._path), self._engine.connect() as connection:
            rows = connection.execute(later).all()
        return [
            Entry(row.seq, self._read(row.seq, row.events), self._unwritten.get(row.seq, row.digest))
            for row in rows
        ]

    def _read(self, seq: int, events: str) -> list[AnyEvent]:
        try:
            return _decode(events)
        except msgspec.MsgspecError as error:
            raise DamagedState(
                f"batch {seq} of {self._path} cannot be read ({error}): restore the file from a copy, "
                "or move it away to start with no jobs"
            ) from error


@dataclass(frozen=True, slots=True)
class _Entries:
    """Entries after a batch, read page by page each time they are asked for."""

    journal: SqlJournal
    after: int

    def __iter__(self) -> Iterator[Entry]:
        after = self.after
        while page := self.journal._page(after):
            yield from page
            after = page[-1].seq


def _last_seq(connection: sa.Connection) -> int:
    # A fold deletes its batches: without the fold's own number, numbers would be given twice.
    found = [connection.scalar(sa.select(sa.func.max(table.c.seq))) for table in (batches, folds)]
    return max(seq or 0 for seq in found)

"""What is kept of jobs that have ended: projections, written with the fold that drops them from the state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from swell.model.coding import decoder, encode
from swell.model.job import Phase
from swell.model.job_query import JobQuery
from swell.model.view import JobView, Story
from swell.store import schema
from swell.store.database import Database
from swell.store.schema import checksum, is_sound

_decode_view: Callable[[str], JobView] = decoder(JobView).decode

#: Rows a statement names at most: databases limit the number of parameters.
CHUNK = 500
#: What is kept of a job that has ended.
OF_JOB = (schema.jobs, schema.stories, schema.submissions, schema.curves)
#: Behind a beginning of an id it is behind every id that begins so: ids are ASCII.
LAST_CHARACTER = "\x7f"


class Archive:
    """Jobs and stories in the journal's database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._damaged: set[str] = set()  #: ids of jobs of which something cannot be read

    def put_jobs(self, connection: sa.Connection, views: Sequence[JobView]) -> None:
        """Add or replace, inside the caller's transaction."""
        rows = {view.id: _job_row(view) for view in views}
        for chunk in _chunks(list(rows)):
            connection.execute(schema.jobs.delete().where(schema.jobs.c.job_id.in_(chunk)))
        if rows:
            connection.execute(schema.jobs.insert(), list(rows.values()))

    def put_stories(self, connection: sa.Connection, stories: Sequence[tuple[str, Story]]) -> None:
        """Add those that are not there, inside the caller's transaction.

        A replay after a crash tells the same stories again; they must not appear twice.
        """
        table = schema.stories
        known: set[tuple[str, float, str, str]] = set()
        for chunk in _chunks(sorted({job_id for job_id, _ in stories})):
            columns = sa.select(table.c.job_id, table.c.at_s, table.c.code, table.c.text)
            known.update(tuple(row) for row in connection.execute(columns.where(table.c.job_id.in_(chunk))))
        wanted = dict.fromkeys((job_id, story.at_s, story.code, story.text) for job_id, story in stories)
        rows = [_story_row(*line) for line in wanted if line not in known]
        if rows:
            connection.execute(table.insert(), rows)

    def keep_stories(self, stories: Sequence[tuple[str, Story]]) -> None:
        """Add all, those too that are alike: a run that is told once may tell a job the same in two turns."""
        rows = [_story_row(job_id, story.at_s, story.code, story.text) for job_id, story in stories]
        if rows:
            with self._database.writing() as connection:
                connection.execute(schema.stories.insert(), rows)

    def add_stories(self, stories: Sequence[tuple[str, Story]]) -> None:
        """Archive (job id, line) pairs; a line that is already archived is not added again."""
        with self._database.writing() as connection:
            self.put_stories(connection, stories)

    def stories(self, job_id: str) -> list[Story]:
        """History of one job, oldest first, without damaged lines."""
        table = schema.stories
        of_job = sa.select(table).where(table.c.job_id == job_id).order_by(table.c.at_s, table.c.number)
        with self._database.reading() as connection:
            rows = connection.execute(of_job).all()
        sound = [row for row in rows if is_sound(row.crc, row.job_id, row.at_s, row.code, row.text)]
        if len(sound) < len(rows):
            self._damaged.add(job_id)
        return [Story(at_s=row.at_s, code=row.code, text=row.text) for row in sound]

    def find(self, query: JobQuery) -> list[JobView]:
        """The jobs of the archive that meet it, oldest first."""
        table = schema.jobs
        newest_first = sa.select(table).order_by(table.c.submitted_s.desc(), table.c.job_id.desc())
        if query.phases:
            newest_first = newest_first.where(table.c.phase.in_(sorted(query.phases)))
        if query.since_s is not None:
            newest_first = newest_first.where(table.c.ended_s >= query.since_s)
        if query.before is not None:
            columns = sa.tuple_(table.c.submitted_s, table.c.job_id)
            newest_first = newest_first.where(columns < (query.before.submitted_s, query.before.job_id))
        if query.limit:
            newest_first = newest_first.limit(query.limit)
        return self._read(newest_first)[::-1]

    def named(self, name: str) -> JobView | None:
        """The newest job of that name."""
        table = schema.jobs
        newest_first = sa.select(table).order_by(table.c.submitted_s.desc(), table.c.job_id.desc())
        return next(iter(self._read(newest_first.where(table.c.name == name).limit(1))), None)

    def begun(self, beginning: str, limit: int) -> list[JobView]:
        """So many jobs at most whose ids begin so."""
        column = schema.jobs.c.job_id
        within = sa.select(schema.jobs).where(column >= beginning, column < beginning + LAST_CHARACTER)
        return self._read(within.order_by(column).limit(limit))

    def count(self) -> dict[Phase, int]:
        """Jobs of the archive by phase."""
        column = schema.jobs.c.phase
        by_phase = sa.select(column, sa.func.count()).group_by(column)
        with self._database.reading() as connection:
            found = {str(phase): int(count) for phase, count in connection.execute(by_phase)}
        return {Phase(phase): count for phase, count in found.items() if phase in list(Phase)}

    def _read(self, rows: sa.Select[Any]) -> list[JobView]:
        """Without those that are damaged."""
        with self._database.reading() as connection:
            found = [self._view(row) for row in connection.execute(rows)]
        return [view for view in found if view is not None]

    def job(self, job_id: str) -> JobView | None:
        """None if there is no such job, or its row is damaged."""
        one = sa.select(schema.jobs).where(schema.jobs.c.job_id == job_id)
        with self._database.reading() as connection:
            row = connection.execute(one).first()
        return None if row is None else self._view(row)

    def ids(self, connection: sa.Connection) -> list[str]:
        """Of all jobs, those too that cannot be read or were pruned."""
        tables = (schema.jobs, schema.pruned)
        return [job_id for table in tables for job_id in connection.scalars(sa.select(table.c.job_id))]

    def damaged_rows(self, connection: sa.Connection) -> list[str]:
        """As `job a-1`, `story of a-1`."""
        rows = connection.execute(sa.select(schema.jobs)).all()
        told = connection.execute(sa.select(schema.stories)).all()
        return [f"job {row.job_id}" for row in rows if self._view(row) is None] + [
            f"story of {row.job_id}"
            for row in told
            if not is_sound(row.crc, row.job_id, row.at_s, row.code, row.text)
        ]

    def is_empty(self, connection: sa.Connection) -> bool:
        """Whether the archive has no jobs."""
        return connection.scalar(sa.select(sa.literal(1)).select_from(schema.jobs).limit(1)) is None

    @property
    def notices(self) -> tuple[str, ...]:
        """That there are jobs which cannot be read, if any were met."""
        if not self._damaged:
            return ()
        ids = ", ".join(sorted(self._damaged)[:5])
        return (
            f"{len(self._damaged)} jobs of the archive are damaged and left out ({ids}); after `swell down`, "
            "`swell doctor --salvage` restores what their folders tell",
        )

    def _view(self, row: sa.Row[tuple[str, float, float | None, str, int | None]]) -> JobView | None:
        """None if it is damaged: the others are to be seen all the same."""
        try:
            if is_sound(row.crc, row.job_id, row.view):
                return _decode_view(row.view)
        except (msgspec.MsgspecError, TypeError):
            pass  # of an earlier version, without a checksum
        self._damaged.add(str(row.job_id))
        return None

    def prune(self, job_ids: Sequence[str], at_s: float) -> None:
        """Nothing is left of these but that they were there."""
        with self._database.writing() as connection:
            for chunk in _chunks(list(job_ids)):
                for table in (*OF_JOB, schema.pruned):
                    connection.execute(table.delete().where(table.c.job_id.in_(chunk)))
                rows = [{"job_id": job_id, "at_s": at_s} for job_id in chunk]
                connection.execute(schema.pruned.insert(), rows)

    def pruned_s(self, job_id: str) -> float | None:
        """When the job was pruned; None if it was not."""
        one = sa.select(schema.pruned.c.at_s).where(schema.pruned.c.job_id == job_id)
        with self._database.reading() as connection:
            at_s: float | None = connection.scalar(one)
        return at_s


def _job_row(view: JobView) -> dict[str, object]:
    text = encode(view).decode()
    return {
        "job_id": view.id,
        "submitted_s": view.submitted_s,
        "ended_s": view.finished_s,
        "name": view.name,
        "phase": str(view.phase),
        "view": text,
        "crc": checksum(view.id, text),
    }


def _chunks(keys: list[str]) -> list[list[str]]:
    return [keys[start : start + CHUNK] for start in range(0, len(keys), CHUNK)]


def _story_row(job_id: str, at_s: float, code: str, text: str) -> dict[str, object]:
    crc = checksum(job_id, float(at_s), code, text)
    return {"job_id": job_id, "at_s": at_s, "code": code, "text": text, "crc": crc}

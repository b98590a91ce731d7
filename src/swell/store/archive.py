"""What is kept of jobs that have ended: projections, written with the fold that drops them from the state."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import sqlalchemy as sa

from swell.model.coding import decoder, encode
from swell.model.device_usage import HOUR_S, HeldTime, Payer, PrunedTime, StoredTime
from swell.model.job import JobClass, Phase
from swell.model.job_query import JobQuery
from swell.model.outcome import OutcomeSums
from swell.model.view import JobView, Story
from swell.store import schema
from swell.store.database import Database

_decode_view: Callable[[str], JobView] = decoder(JobView).decode
_decode_held: Callable[[str], HeldTime] = decoder(HeldTime).decode

#: Rows a statement names at most: databases limit the number of parameters.
CHUNK = 500
#: What is kept of a job that has ended.
OF_JOB = (schema.jobs, schema.outcomes, schema.stories, schema.submissions, schema.curves)
ENDS = frozenset(phase for phase in Phase if phase.is_end)
#: Behind a beginning of an id it is behind every id that begins so: ids are ASCII.
LAST_CHARACTER = "\x7f"


class Archive:
    """Jobs and stories in the journal's database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def put_jobs(self, connection: sa.Connection, views: Sequence[JobView]) -> None:
        """Add or replace, inside the caller's transaction."""
        rows = {view.id: _job_row(view) for view in views}
        for chunk in _chunks(list(rows)):
            for table in (schema.jobs, schema.outcomes):
                connection.execute(table.delete().where(table.c.job_id.in_(chunk)))
        if rows:
            connection.execute(schema.jobs.insert(), list(rows.values()))
            outcomes = {view.id: schema.outcome_row(view) for view in views}
            connection.execute(schema.outcomes.insert(), list(outcomes.values()))

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
        """History of one job, oldest first."""
        table = schema.stories
        in_order = sa.select(table).where(table.c.job_id == job_id).order_by(table.c.at_s, table.c.number)
        with self._database.reading() as connection:
            return [
                Story(at_s=row.at_s, code=row.code, text=row.text) for row in connection.execute(in_order)
            ]

    def find(self, query: JobQuery) -> list[JobView]:
        """The jobs of the archive that meet it, oldest first."""
        if query.is_about_outcomes:
            return self._read(_by_outcome(query))[::-1]
        table = schema.jobs
        newest_first = sa.select(table).order_by(table.c.submitted_s.desc(), table.c.job_id.desc())
        if _is_about_phases(query):
            newest_first = newest_first.where(table.c.phase.in_(sorted(query.phases)))
        if query.group:
            newest_first = newest_first.where(_is_of_group(query.group))
        if query.since_s is not None:
            newest_first = newest_first.where(table.c.ended_s >= query.since_s)
        if query.before is not None:
            columns = sa.tuple_(table.c.submitted_s, table.c.job_id)
            newest_first = newest_first.where(columns < (query.before.submitted_s, query.before.job_id))
        if query.limit:
            newest_first = newest_first.limit(query.limit)
        return self._read(newest_first)[::-1]

    def span(self, query: JobQuery) -> tuple[float, float] | None:
        """When the first and the last of those jobs ended; None: there are none."""
        ended_s = schema.outcomes.c.ended_s
        ends = sa.select(sa.func.min(ended_s), sa.func.max(ended_s)).where(*_conditions(query))
        with self._database.reading() as connection:
            first_s, last_s = connection.execute(ends).one()
        return None if first_s is None else (first_s, last_s)

    def add_up(
        self, query: JobQuery, period_s: float, origin_s: float, without: Sequence[str] = ()
    ) -> dict[int, OutcomeSums]:
        """Outcomes by the number of their period, of which number 0 begins at `origin_s`.

        Args:
            origin_s: earlier than the end of any job.
            without: ids of jobs that are left out.
        """
        left_out = sa.select(sa.func.json_each(encode(list(without)).decode()).table_valued("value").c.value)
        columns = schema.outcomes.c
        number = sa.cast((columns.ended_s - origin_s) / period_s, sa.Integer)
        sums = [sum_of.label(name) for name, sum_of in _SUMS.items()]
        rows = sa.select(number, *sums).where(*_conditions(query), columns.job_id.not_in(left_out))
        with self._database.reading() as connection:
            found = connection.execute(rows.group_by(number)).all()
        return {int(row[0]): OutcomeSums(**dict(zip(_SUMS, row[1:], strict=True))) for row in found}

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
        with self._database.reading() as connection:
            return [_decode_view(row.view) for row in connection.execute(rows)]

    def job(self, job_id: str) -> JobView | None:
        """None if there is no such job."""
        one = sa.select(schema.jobs).where(schema.jobs.c.job_id == job_id)
        with self._database.reading() as connection:
            row = connection.execute(one).first()
            return None if row is None else _decode_view(row.view)

    def ids(self, connection: sa.Connection) -> list[str]:
        """Ids of all jobs, those of pruned jobs included."""
        tables = (schema.jobs, schema.pruned)
        return [job_id for table in tables for job_id in connection.scalars(sa.select(table.c.job_id))]

    def is_empty(self, connection: sa.Connection) -> bool:
        """Whether the archive has no jobs."""
        return connection.scalar(sa.select(sa.literal(1)).select_from(schema.jobs).limit(1)) is None

    def prune(self, job_ids: Sequence[str], at_s: float) -> None:
        """Nothing is left of these but that they were there, and their device time."""
        with self._database.writing() as connection:
            for chunk in _chunks(list(job_ids)):
                self._add_pruned_time(connection, chunk)
                for table in (*OF_JOB, schema.pruned):
                    connection.execute(table.delete().where(table.c.job_id.in_(chunk)))
                rows = [{"job_id": job_id, "at_s": at_s} for job_id in chunk]
                connection.execute(schema.pruned.insert(), rows)

    def _add_pruned_time(self, connection: sa.Connection, job_ids: Sequence[str]) -> None:
        """Add the device time of these jobs to that of pruned ones."""
        table, found = schema.pruned_time, dict[tuple[float, Payer], float]()
        of_jobs = sa.select(schema.jobs).where(schema.jobs.c.job_id.in_(job_ids))
        for job in _held(connection.execute(of_jobs)):
            for hour_s, device_s in job.by_hour().items():
                found[hour_s, job.payer] = found.get((hour_s, job.payer), 0.0) + device_s
        for (hour_s, payer), device_s in found.items():
            key = {"hour_s": hour_s, **payer._asdict(), "job_class": str(payer.job_class)}
            is_one = sa.and_(*(table.c[name] == value for name, value in key.items()))
            more = {"device_s": table.c.device_s + device_s}
            if not connection.execute(table.update().where(is_one).values(more)).rowcount:
                connection.execute(table.insert().values({**key, "device_s": device_s}))

    def device_time(self, since_s: float, until_s: float, asked: Collection[str]) -> StoredTime:
        """See `TimeStore`."""
        jobs, pruned, removed = schema.jobs.c, schema.pruned_time.c, schema.pruned.c.job_id
        ended = sa.select(schema.jobs).where(jobs.ended_s > since_s, jobs.submitted_s < until_s)
        within = sa.select(schema.pruned_time).where(
            pruned.hour_s + HOUR_S / 2 >= since_s, pruned.hour_s + HOUR_S / 2 < until_s
        )
        with self._database.reading() as connection:
            held = _held(connection.execute(ended))
            gone = [
                job_id
                for chunk in _chunks(list(asked))
                for job_id in connection.scalars(sa.select(removed).where(removed.in_(chunk)))
            ]
            times = [
                PrunedTime(
                    row.hour_s, Payer(row.user, row.tenant, JobClass(row.job_class), row.kind), row.device_s
                )
                for row in connection.execute(within)
            ]
        return StoredTime(held, times, gone)

    def pruned_s(self, job_id: str) -> float | None:
        """When the job was pruned; None if it was not."""
        one = sa.select(schema.pruned.c.at_s).where(schema.pruned.c.job_id == job_id)
        with self._database.reading() as connection:
            at_s: float | None = connection.scalar(one)
        return at_s


def _held(rows: Iterable[sa.Row[Any]]) -> list[HeldTime]:
    return [_decode_held(row.view) for row in rows]


def _by_outcome(query: JobQuery) -> sa.Select[Any]:
    """Rows of `jobs`, newest first."""
    found, columns = schema.outcomes, schema.outcomes.c
    chosen = sa.select(columns.job_id, columns.submitted_s).where(*_conditions(query))
    if query.before is not None:
        before = (query.before.submitted_s, query.before.job_id)
        chosen = chosen.where(sa.tuple_(columns.submitted_s, columns.job_id) < before)
    chosen = chosen.order_by(columns.submitted_s.desc(), columns.job_id.desc())
    if query.limit:
        chosen = chosen.limit(query.limit)
    place = chosen.subquery(found.name + "_found")
    rows = sa.select(schema.jobs).join(place, place.c.job_id == schema.jobs.c.job_id)
    return rows.order_by(place.c.submitted_s.desc(), place.c.job_id.desc())


def _is_about_phases(query: JobQuery) -> bool:
    """All jobs here have ended: a condition that each meets would only keep an index from being used."""
    return bool(query.phases) and not query.phases >= ENDS


def _conditions(query: JobQuery) -> list[sa.ColumnElement[bool]]:
    """SQL conditions on the table `outcomes` for a query, except its place and limit."""
    columns = schema.outcomes.c
    found: list[sa.ColumnElement[bool]] = []
    if _is_about_phases(query):
        found.append(columns.phase.in_(sorted(query.phases)))
    if query.since_s is not None:
        found.append(columns.ended_s >= query.since_s)
    if query.until_s is not None:
        found.append(columns.ended_s < query.until_s)
    if query.name:
        found += [columns.name >= query.name, columns.name < query.name + LAST_CHARACTER]
    if query.group:
        found.append(columns.job_id.in_(sa.select(schema.jobs.c.job_id).where(_is_of_group(query.group))))
    if query.tenant is not None:
        found.append(columns.tenant == query.tenant)
    if query.job_class is not None:
        found.append(columns.job_class == str(query.job_class))
    if query.is_promised is not None:
        found.append(columns.is_promised.is_(query.is_promised))
    if query.kept is not None:
        found.append(columns.kept.is_(query.kept))
    return found


def _is_of_group(group: str) -> sa.ColumnElement[bool]:
    """Whether a view in `jobs` has this group: that is asked so rarely that there is no column for it.

    Within a text of a view quotes are escaped, so that only a field can have this form.
    """
    return sa.func.instr(schema.jobs.c.view, f'"group":{encode(group).decode()}') > 0


def _number_of(condition: sa.ColumnElement[bool]) -> sa.ColumnElement[Any]:
    return sa.func.coalesce(sa.func.sum(sa.case((condition, 1), else_=0)), 0)


_OF = schema.outcomes.c
#: Fields of an `OutcomeSums`, as sums over rows.
_SUMS: dict[str, sa.ColumnElement[Any]] = {
    "num_jobs": sa.func.count(),
    "promises_kept": _number_of(sa.and_(_OF.is_promised, _OF.kept.is_(True))),
    "promises_missed": _number_of(sa.and_(_OF.is_promised, _OF.kept.is_(False))),
    "others_kept": _number_of(sa.and_(sa.not_(_OF.is_promised), _OF.kept.is_(True))),
    "others_missed": _number_of(sa.and_(sa.not_(_OF.is_promised), _OF.kept.is_(False))),
    "refused": _number_of(_OF.phase == str(Phase.REJECTED)),
    "failed": _number_of(_OF.phase == str(Phase.FAILED)),
    "device_s": sa.func.sum(_OF.device_s),
    "resizes": sa.func.sum(_OF.resizes),
    "pause_s": sa.func.sum(_OF.pause_s),
    "saved_s": sa.func.sum(_OF.saved_s),
}


def _job_row(view: JobView) -> dict[str, object]:
    return {
        "job_id": view.id,
        "submitted_s": view.submitted_s,
        "ended_s": view.finished_s,
        "name": view.name,
        "phase": str(view.phase),
        "view": encode(view).decode(),
    }


def _chunks(keys: list[str]) -> list[list[str]]:
    return [keys[start : start + CHUNK] for start in range(0, len(keys), CHUNK)]


def _story_row(job_id: str, at_s: float, code: str, text: str) -> dict[str, object]:
    return {"job_id": job_id, "at_s": at_s, "code": code, "text": text}

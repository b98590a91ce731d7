"""What is kept of jobs that have ended: their rows of the table `jobs`, and their stories."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence

import msgspec

from swell.model.coding import decoder, encode
from swell.model.job import Phase
from swell.model.job_query import EVERY_JOB, JobQuery
from swell.model.job_sums import HeldTime, OutcomeSums, device_s
from swell.model.view import JobView, Story
from swell.store.database import Database, as_text

ENDS = frozenset(phase for phase in Phase if phase.is_end)
#: Behind a beginning of an id it is behind every id that begins so: ids are ASCII.
LAST_CHARACTER = "\x7f"

#: Fields of an `OutcomeSums`, as sums over rows.
SUMS = {
    "num_jobs": "count(*)",
    "promises_kept": "coalesce(sum(is_promised AND kept = 1), 0)",
    "promises_missed": "coalesce(sum(is_promised AND kept = 0), 0)",
    "others_kept": "coalesce(sum(NOT is_promised AND kept = 1), 0)",
    "others_missed": "coalesce(sum(NOT is_promised AND kept = 0), 0)",
    "refused": f"sum(phase = '{Phase.REJECTED}')",
    "failed": f"sum(phase = '{Phase.FAILED}')",
    "device_s": "sum(device_s)",
    "resizes": "sum(resizes)",
    "pause_s": "sum(pause_s)",
    "saved_s": "sum(saved_s)",
}
PUT = """INSERT INTO jobs (id, device_s, view) VALUES (?, ?, ?)
    ON CONFLICT (id) DO UPDATE SET device_s = excluded.device_s, view = excluded.view"""
PRUNE = """INSERT INTO jobs (id, pruned_s, view) VALUES (?, ?, ?) ON CONFLICT (id) DO UPDATE SET
    pruned_s = excluded.pruned_s, view = excluded.view, key = NULL, device_s = NULL, submission = NULL"""


_decode_view: Callable[[str], JobView] = decoder(JobView).decode
_decode_held: Callable[[str], HeldTime] = decoder(HeldTime).decode


class Archive(Database):
    """Ended jobs, from the end of the turn in which they did, and stories."""

    def keep(self, ended: Sequence[JobView], stories: Sequence[tuple[str, Story]] = ()) -> None:
        """Archive ended jobs, in place of what the archive has of them, and (job id, story) pairs."""
        with self.writing() as connection:
            put_jobs(connection, ended)
            put_stories(connection, stories)

    def stories(self, job_id: str) -> list[Story]:
        """History of one job, oldest first."""
        in_order = "SELECT at_s, code, text FROM stories WHERE job_id = ? ORDER BY at_s, number"
        rows = self.rows(in_order, job_id)
        return [Story(at_s=at_s, code=code, text=text) for at_s, code, text in rows]

    def find(self, query: JobQuery) -> list[JobView]:
        """The jobs of the archive that meet it, oldest first."""
        conditions, values = _conditions(query)
        if query.before is not None:
            conditions += " AND (submitted_s, id) < (?, ?)"
            values += [query.before.submitted_s, query.before.job_id]
        return self._newest(conditions, *values, limit=query.limit)[::-1]

    def archived_jobs(self) -> list[JobView]:
        """All jobs of the archive, oldest first."""
        return self.find(EVERY_JOB)

    def span(self, query: JobQuery) -> tuple[float, float] | None:
        """When the first and the last of those jobs ended; None: there are none."""
        conditions, values = _conditions(query)
        ends = f"SELECT min(ended_s), max(ended_s) FROM jobs WHERE {conditions}"
        ((first_s, last_s),) = self.rows(ends, *values)
        return None if first_s is None else (first_s, last_s)

    def add_up(self, query: JobQuery, period_s: float, origin_s: float) -> dict[int, OutcomeSums]:
        """Outcomes by the number of their period, of which number 0 begins at `origin_s`.

        Args:
            origin_s: earlier than the end of any job.
        """
        conditions, values = _conditions(query)
        sums = f"""SELECT CAST((ended_s - ?) / ? AS INTEGER) AS period, {", ".join(SUMS.values())} FROM jobs
            WHERE {conditions} GROUP BY period"""
        rows = self.rows(sums, origin_s, period_s, *values)
        return {number: OutcomeSums(**dict(zip(SUMS, found, strict=True))) for number, *found in rows}

    def named(self, name: str) -> JobView | None:
        """The newest job of that name."""
        return next(iter(self._newest("phase IS NOT NULL AND name = ?", name, limit=1)), None)

    def begun(self, beginning: str, limit: int) -> list[JobView]:
        """So many jobs at most whose ids begin so."""
        within = "SELECT view FROM jobs WHERE phase IS NOT NULL AND id >= ? AND id < ? ORDER BY id LIMIT ?"
        return self.texts(_decode_view, within, beginning, beginning + LAST_CHARACTER, limit)

    def count(self) -> dict[Phase, int]:
        """Jobs of the archive by phase."""
        by_phase = "SELECT phase, count(*) FROM jobs WHERE phase IS NOT NULL GROUP BY phase"
        return {Phase(phase): count for phase, count in self.rows(by_phase) if phase in list(Phase)}

    def job(self, job_id: str) -> JobView | None:
        """None if there is no such job."""
        one = "SELECT view FROM jobs WHERE phase IS NOT NULL AND id = ?"
        return next(iter(self.texts(_decode_view, one, job_id)), None)

    def _newest(self, conditions: str, *values: object, limit: int = 0) -> list[JobView]:
        """So many jobs, the newest first; 0: all."""
        rows = f"SELECT view FROM jobs WHERE {conditions} ORDER BY submitted_s DESC, id DESC LIMIT ?"
        return self.texts(_decode_view, rows, *values, limit or -1)

    def prune(self, job_ids: Sequence[str], at_s: float) -> None:
        """Keep nothing of these but their ids, their device time, and messages that are yet to be sent."""
        with self.writing() as connection:
            for job_id in job_ids:
                view = connection.execute("SELECT view FROM jobs WHERE id = ?", (job_id,)).fetchone()
                left = None
                if view is not None and view[0] is not None:
                    held = msgspec.structs.replace(_decode_held(as_text(view[0])), id="", name="")
                    left = encode(held).decode()
                connection.execute(PRUNE, (job_id, at_s, left))
                for rows in ("stories WHERE", "curves WHERE", "deliveries WHERE message IS NULL AND"):
                    connection.execute(f"DELETE FROM {rows} job_id = ?", (job_id,))

    def followed(self) -> set[str]:
        """Ids of the jobs that open jobs were to follow: how those have ended still counts."""
        of_open = "SELECT value FROM jobs, json_each(submission, '$.spec.after') WHERE view IS NULL"
        return {job_id for (job_id,) in self.rows(of_open)}

    def device_time(self, since_s: float, until_s: float) -> list[HeldTime]:
        """Device time of ended jobs that were there in this time, pruned ones too."""
        ended = """SELECT view FROM jobs
            WHERE ended_s > ? AND (submitted_s < ? OR submitted_s IS NULL) AND view IS NOT NULL"""
        return self.texts(_decode_held, ended, since_s, until_s)

    def pruned_s(self, job_id: str) -> float | None:
        """When the job was pruned; None if it was not."""
        found = self.rows("SELECT pruned_s FROM jobs WHERE id = ?", job_id)
        return found[0][0] if found else None


def put_jobs(connection: sqlite3.Connection, views: Sequence[JobView]) -> None:
    """Add or replace, inside the caller's transaction."""
    rows = [(view.id, device_s(view), encode(view).decode()) for view in views]
    connection.executemany(PUT, rows)


def put_stories(connection: sqlite3.Connection, stories: Sequence[tuple[str, Story]]) -> None:
    """Add (job id, line) pairs, inside the caller's transaction."""
    rows = [(job_id, story.at_s, story.code, story.text) for job_id, story in stories]
    connection.executemany("INSERT INTO stories (job_id, at_s, code, text) VALUES (?, ?, ?, ?)", rows)


def _conditions(query: JobQuery) -> tuple[str, list[object]]:
    """An SQL condition on the table `jobs` with its values, for a query, except its place and limit."""
    given: tuple[tuple[str, object], ...] = (
        ("ended_s >= ?", query.since_s),
        ("ended_s < ?", query.until_s),
        ("name >= ?", query.name or None),
        ("name < ?", query.name + LAST_CHARACTER if query.name else None),
        ("job_group = ?", query.group or None),
        ("tenant = ?", query.tenant),
        ("job_class = ?", query.job_class and str(query.job_class)),
        ("is_promised = ?", query.is_promised),
        ("kept = ?", query.kept),
    )
    found = [(condition, value) for condition, value in given if value is not None]
    values = [value for _, value in found]
    conditions = ["phase IS NOT NULL", *(condition for condition, _ in found)]
    # All jobs here have ended: a condition that each meets would only keep an index from being used.
    if query.phases and not query.phases >= ENDS:
        conditions.append(f"phase IN ({', '.join('?' * len(query.phases))})")
        values += sorted(map(str, query.phases))
    return " AND ".join(conditions), values

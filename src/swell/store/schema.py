"""The tables, and how a database of an earlier version becomes one of this."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import sqlalchemy as sa

from swell import __version__
from swell.model.coding import decoder, encode
from swell.model.event import JobSubmitted
from swell.model.job import JobSpec
from swell.model.outcome import device_s
from swell.model.view import JobView
from swell.store.errors import DamagedState, NewerState, remedy

SCHEMA_VERSION = 6

metadata = sa.MetaData()

meta = sa.Table(
    "meta",
    metadata,
    sa.Column("schema_version", sa.Integer, nullable=False),
    sa.Column("written_by", sa.Text, nullable=False),
)

#: SQLite's own row number: no index has to be right for the row to be found.
Number = sa.BigInteger().with_variant(sa.Integer, "sqlite")

#: The truth since the last fold. `digest` is that of the commands the head gave, NULL if it never said.
batches = sa.Table(
    "batches",
    metadata,
    sa.Column("seq", Number, primary_key=True, autoincrement=False),
    sa.Column("events", sa.Text, nullable=False),
    sa.Column("digest", sa.Text),
    sa.Column("crc", sa.BigInteger),  #: of seq and events; NULL, here and below: of an earlier version
)

#: At most one row: the head's state after every batch up to and with `seq`.
folds = sa.Table(
    "folds",
    metadata,
    sa.Column("seq", Number, primary_key=True, autoincrement=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("crc", sa.BigInteger),  #: of seq and state
)

#: Every job that was submitted, for as long as its id and its idempotency key are not to be given again.
submissions = sa.Table(
    "submissions",
    metadata,
    sa.Column("job_id", sa.Text, primary_key=True),
    sa.Column("key", sa.Text, unique=True),  #: NULL: it was submitted without one
    sa.Column("event", sa.Text, nullable=False),  #: the `JobSubmitted`
    sa.Column("crc", sa.BigInteger),  #: of job_id and event
)

#: Jobs that have ended and that the state no longer holds.
jobs = sa.Table(
    "jobs",
    metadata,
    sa.Column("job_id", sa.Text, primary_key=True),
    sa.Column("submitted_s", sa.Float(53), nullable=False),
    sa.Column("ended_s", sa.Float(53)),
    sa.Column("view", sa.Text, nullable=False),
    sa.Column("crc", sa.BigInteger),  #: of job_id and view
    sa.Column("name", sa.Text, nullable=False, server_default=""),
    sa.Column("phase", sa.Text, nullable=False, server_default=""),
    sa.Index("jobs_by_submission", "submitted_s", "job_id"),
    sa.Index("jobs_by_phase", "phase", "submitted_s"),
    sa.Index("jobs_by_name", "name", "submitted_s"),
)

#: What lists and sums of the jobs of `jobs` are made of, without reading their views.
outcomes = sa.Table(
    "outcomes",
    metadata,
    sa.Column("job_id", sa.Text, primary_key=True),
    sa.Column("submitted_s", sa.Float(53), nullable=False),
    sa.Column("ended_s", sa.Float(53), nullable=False),
    sa.Column("phase", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("tenant", sa.Text, nullable=False),
    sa.Column("job_class", sa.Text, nullable=False),
    sa.Column("is_promised", sa.Boolean, nullable=False),
    sa.Column("kept", sa.Boolean),  #: its deadline; NULL: it has none, or was refused or cancelled
    sa.Column("device_s", sa.Float(53), nullable=False),
    sa.Column("resizes", sa.Integer, nullable=False),
    sa.Column("pause_s", sa.Float(53), nullable=False),
    sa.Column("saved_s", sa.Float(53), nullable=False),
    sa.Index("outcomes_by_submission", "submitted_s", "job_id"),
    sa.Index("outcomes_by_name", "name", "submitted_s"),
    sa.Index("outcomes_by_tenant", "tenant", "submitted_s"),
    sa.Index("outcomes_by_promise", "is_promised", "kept", "submitted_s"),
    sa.Index("outcomes_by_end", "ended_s"),
)

stories = sa.Table(
    "stories",
    metadata,
    sa.Column("number", Number, primary_key=True),
    sa.Column("job_id", sa.Text, nullable=False, index=True),
    sa.Column("at_s", sa.Float(53), nullable=False),
    sa.Column("code", sa.Text, nullable=False),
    sa.Column("text", sa.Text, nullable=False),
    sa.Column("crc", sa.BigInteger),  #: of job_id, at_s, code and text
)

#: Jobs of which nothing else is left: their ids must not be given again.
pruned = sa.Table(
    "pruned",
    metadata,
    sa.Column("job_id", sa.Text, primary_key=True),
    sa.Column("at_s", sa.Float(53), nullable=False),
)

#: Device time of pruned jobs, by the hour and by whose it was.
pruned_time = sa.Table(
    "pruned_time",
    metadata,
    sa.Column("hour_s", sa.Float(53), primary_key=True),  #: begin of the hour
    sa.Column("user", sa.Text, primary_key=True),
    sa.Column("tenant", sa.Text, primary_key=True),
    sa.Column("job_class", sa.Text, primary_key=True),
    sa.Column("kind", sa.Text, primary_key=True),
    sa.Column("device_s", sa.Float(53), nullable=False),
)

#: What a batch told of curves (`store.curves.ToldCurves`, as MessagePack), until all of it is in `curves`.
tallies = sa.Table(
    "tallies",
    metadata,
    sa.Column("seq", Number, primary_key=True, autoincrement=False),  #: of the batch
    sa.Column("told", sa.LargeBinary, nullable=False),
    sa.Column("crc", sa.BigInteger, nullable=False),  #: of seq and told
)

#: The history of one metric of one job, in pieces: in whole up to and with batch `seq` of the last one.
curves = sa.Table(
    "curves",
    metadata,
    sa.Column("job_id", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True),  #: of the piece, from 0
    sa.Column("seq", sa.BigInteger, nullable=False),
    sa.Column("points", sa.LargeBinary, nullable=False),  #: `store.curve.CurvePoint`s, as MessagePack
    sa.Column("crc", sa.BigInteger, nullable=False),  #: of all of these
)


def checksum(*values: object) -> int:
    """What `crc` holds of these values: a flipped bit in a text may leave it a text that can be read."""
    return zlib.crc32("\0".join(map(str, values)).encode("utf-8", "surrogatepass"))


def is_sound(crc: object, *values: object) -> bool:
    """Whether the values are those that were written, as far as that can be told."""
    return crc is None or crc == checksum(*values)


def submission_row(event: JobSubmitted) -> dict[str, object]:
    """Row of the table `submissions`, including its checksum."""
    text = encode(event).decode()
    return {
        "job_id": event.job_id,
        "key": event.origin.key or None,
        "event": text,
        "crc": checksum(event.job_id, text),
    }


def outcome_row(view: JobView) -> dict[str, object]:
    """Row of the table `outcomes` of a job that has ended."""
    return {
        "job_id": view.id,
        "submitted_s": view.submitted_s,
        "ended_s": view.submitted_s if view.finished_s is None else view.finished_s,
        "phase": str(view.phase),
        "name": view.name,
        "tenant": view.tenant,
        "job_class": str(view.job_class),
        "is_promised": view.is_promised,
        "kept": view.kept,
        "device_s": device_s(view),
        "resizes": view.resizes,
        "pause_s": view.resize_pause_s,
        "saved_s": view.resize_saved_s,
    }


Step = Callable[[sa.Connection], None]


class _Listed(msgspec.Struct):
    """What of a stored view has a column of its own since version 2."""

    name: str = ""
    phase: str = ""


def _list_jobs_by_column(connection: sa.Connection) -> None:
    """Lists of jobs are made by the database."""
    for column in (jobs.c.name, jobs.c.phase):
        connection.exec_driver_sql(f"ALTER TABLE jobs ADD COLUMN {column.name} TEXT NOT NULL DEFAULT ''")
    rows = connection.execute(sa.select(jobs.c.job_id, jobs.c.view)).all()
    listed = [(row.job_id, _listed(row.view)) for row in rows]
    if listed:
        of_row = jobs.c.job_id == sa.bindparam("row")
        columns: dict[str, Any] = {"name": sa.bindparam("new_name"), "phase": sa.bindparam("new_phase")}
        connection.execute(
            jobs.update().where(of_row).values(columns),
            [{"row": job_id, "new_name": view.name, "new_phase": view.phase} for job_id, view in listed],
        )
    for index in sorted(jobs.indexes, key=lambda index: str(index.name)):
        index.create(connection)


def _listed(view: str) -> _Listed:
    """Empty of a view that is damaged: it is told of when it is read."""
    try:
        return msgspec.json.decode(view, type=_Listed)
    except (msgspec.MsgspecError, TypeError):
        return _Listed()


def _add_checksums_and_submissions(connection: sa.Connection) -> None:
    for table in (batches, folds):  # their numbers were columns with an index
        connection.exec_driver_sql(f"ALTER TABLE {table.name} RENAME TO old_{table.name}")
        table.create(connection)
        columns = ", ".join(column.name for column in table.columns if column.name != "crc")
        copy = f"INSERT INTO {table.name} ({columns}) SELECT {columns} FROM old_{table.name}"  # noqa: S608
        connection.exec_driver_sql(copy)
        connection.exec_driver_sql(f"DROP TABLE old_{table.name}")
    for table in (jobs, stories):
        connection.exec_driver_sql(f"ALTER TABLE {table.name} ADD COLUMN crc BIGINT")
    submissions.create(connection)
    states = [state for (state,) in connection.execute(sa.select(folds.c.state))]
    texts = [events for (events,) in connection.execute(sa.select(batches.c.events))]
    found = {event.job_id: event for event in submissions_before(states, texts)}
    if found:
        connection.execute(submissions.insert(), [submission_row(event) for event in found.values()])


class _Record(msgspec.Struct, kw_only=True):
    """What a fold of version 1 tells of an open job."""

    id: str
    spec: JobSpec
    submitted_s: float


class _Fold(msgspec.Struct, kw_only=True):
    records: list[_Record]


class _FirstVersionEvent(msgspec.Struct, kw_only=True):
    """What an event of version 1 tells of a new job, if it is about one."""

    type: str
    job_id: str = ""
    at_s: float = 0.0
    spec: JobSpec | None = None


_decode_fold: Callable[[str], _Fold] = decoder(_Fold).decode
_decode_lines: Callable[[str], list[_FirstVersionEvent]] = decoder(list[_FirstVersionEvent]).decode


def submissions_before(folds: list[str], batches: list[str]) -> list[JobSubmitted]:
    """The submissions that folds and batches of version 1 tell of. Raises msgspec.MsgspecError."""
    records = [record for state in folds for record in _decode_fold(state).records]
    lines = [line for events in batches for line in _decode_lines(events)]
    return [JobSubmitted(at_s=one.submitted_s, job_id=one.id, spec=one.spec) for one in records] + [
        JobSubmitted(at_s=line.at_s, job_id=line.job_id, spec=line.spec)
        for line in lines
        if line.type == JobSubmitted.__name__ and line.spec is not None
    ]


def _to_version_2(connection: sa.Connection) -> None:
    _add_checksums_and_submissions(connection)
    _list_jobs_by_column(connection)
    pruned.create(connection)


def _to_version_3(connection: sa.Connection) -> None:
    """Tables are as they were. Folds hold gangs in a way that an earlier program would not understand."""


def _to_version_4(connection: sa.Connection) -> None:
    """The history of metrics begins."""
    for table in (tallies, curves):
        table.create(connection)


#: Views that are read at a time: one may be some thousand bytes.
VIEWS_AT_ONCE = 1000

_decode_view: Callable[[str], JobView] = decoder(JobView).decode


def _to_version_5(connection: sa.Connection) -> None:
    """Ended jobs are found and added up by the database."""
    outcomes.create(connection)
    views = connection.execution_options(yield_per=VIEWS_AT_ONCE).execute(sa.select(jobs.c.view))
    for part in views.partitions():
        rows = [outcome_row(view) for (text,) in part if (view := _sound_view(text)) is not None]
        if rows:
            connection.execute(outcomes.insert(), rows)


def _to_version_6(connection: sa.Connection) -> None:
    """Device time outlives the jobs that are pruned from now on."""
    pruned_time.create(connection)


def _sound_view(text: str) -> JobView | None:
    """None of one that is damaged: it is told of when it is read."""
    try:
        return _decode_view(text)
    except (msgspec.MsgspecError, TypeError):
        return None


#: Schema version -> what brings a database of the version before it there. A new database skips them:
#: it is created from the tables above. So a change of a table is an edit above plus a step here.
STEPS: Mapping[int, Step] = {
    2: _to_version_2,
    3: _to_version_3,
    4: _to_version_4,
    5: _to_version_5,
    6: _to_version_6,
}


def bring_up_to_date(
    connection: sa.Connection,
    *,
    where: Path,
    steps: Mapping[int, Step] = STEPS,
    schema_version: int = SCHEMA_VERSION,
) -> None:
    """Create the tables, or take the steps that a database of an earlier version still lacks.

    Raises:
        NewerState: the database is of a version this program does not know; nothing was changed.
        DamagedState: it is no journal of Swell, or no whole one.
    """
    found = _stamp(connection, where)
    if found is None:
        metadata.create_all(connection)
        connection.execute(meta.insert().values(schema_version=schema_version, written_by=__version__))
        return
    version, written_by = found
    if version > schema_version:
        raise NewerState(
            f"{where} was written by Swell {written_by} (schema {version}); this is Swell {__version__}, "
            f"which reads schemas up to {schema_version}: upgrade Swell, "
            "or choose another folder with --state"
        )
    for next_version in range(version + 1, schema_version + 1):
        try:
            steps[next_version](connection)
        except msgspec.MsgspecError as error:
            raise DamagedState(f"{where} is damaged ({error}): {remedy(where)}") from error
    if (version, written_by) != (schema_version, __version__):
        connection.execute(meta.update().values(schema_version=schema_version, written_by=__version__))


def _stamp(connection: sa.Connection, where: Path) -> tuple[int, str] | None:
    """Version and program; None: there is nothing in the database yet."""
    names = sa.inspect(connection).get_table_names()
    if not names:
        return None
    row = connection.execute(sa.select(meta)).first() if meta.name in names else None
    if row is None or not isinstance(row.schema_version, int) or row.schema_version < 1:
        raise DamagedState(f"{where} is damaged (it does not say of which version it is): {remedy(where)}")
    return row.schema_version, str(row.written_by)

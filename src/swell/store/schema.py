"""The tables, and how a database of an earlier version becomes one of this."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import sqlalchemy as sa

from swell import __version__
from swell.store.errors import NewerState

SCHEMA_VERSION = 3

metadata = sa.MetaData()

meta = sa.Table(
    "meta",
    metadata,
    sa.Column("schema_version", sa.Integer, nullable=False),
    sa.Column("written_by", sa.Text, nullable=False),
)

#: The truth since the last fold. `digest` is that of the commands the head gave, NULL if it never said.
batches = sa.Table(
    "batches",
    metadata,
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("events", sa.Text, nullable=False),
    sa.Column("digest", sa.Text),
)

#: At most one row: the head's state after every batch up to and with `seq`.
folds = sa.Table(
    "folds",
    metadata,
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("state", sa.Text, nullable=False),
)

#: Jobs that have ended and that the state no longer holds.
jobs = sa.Table(
    "jobs",
    metadata,
    sa.Column("job_id", sa.Text, primary_key=True),
    sa.Column("submitted_s", sa.Float(53), nullable=False),
    sa.Column("ended_s", sa.Float(53)),
    sa.Column("view", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False, server_default=""),
    sa.Column("phase", sa.Text, nullable=False, server_default=""),
    sa.Index("jobs_by_submission", "submitted_s", "job_id"),
    sa.Index("jobs_by_phase", "phase", "submitted_s"),
    sa.Index("jobs_by_name", "name", "submitted_s"),
)

stories = sa.Table(
    "stories",
    metadata,
    sa.Column("number", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
    sa.Column("job_id", sa.Text, nullable=False, index=True),
    sa.Column("at_s", sa.Float(53), nullable=False),
    sa.Column("code", sa.Text, nullable=False),
    sa.Column("text", sa.Text, nullable=False),
)

#: Jobs of which nothing else is left: their ids must not be given again.
pruned = sa.Table(
    "pruned",
    metadata,
    sa.Column("job_id", sa.Text, primary_key=True),
    sa.Column("at_s", sa.Float(53), nullable=False),
)

Step = Callable[[sa.Connection], None]


class _Listed(msgspec.Struct):
    """What of a stored view has a column of its own since version 3."""

    name: str
    phase: str


def _list_jobs_by_column(connection: sa.Connection) -> None:
    """Version 3: lists of jobs are made by the database."""
    for column in (jobs.c.name, jobs.c.phase):
        connection.execute(sa.text(f"ALTER TABLE jobs ADD COLUMN {column.name} TEXT NOT NULL DEFAULT ''"))
    decode = msgspec.json.Decoder(_Listed).decode
    rows = connection.execute(sa.select(jobs.c.job_id, jobs.c.view)).all()
    listed = [(row.job_id, decode(row.view)) for row in rows]
    if listed:
        of_row = jobs.c.job_id == sa.bindparam("row")
        columns: dict[str, Any] = {"name": sa.bindparam("new_name"), "phase": sa.bindparam("new_phase")}
        connection.execute(
            jobs.update().where(of_row).values(columns),
            [{"row": job_id, "new_name": view.name, "new_phase": view.phase} for job_id, view in listed],
        )
    for index in sorted(jobs.indexes, key=lambda index: str(index.name)):
        index.create(connection)


#: Schema version -> what brings a database of the version before it there. A new database skips them:
#: it is created from the tables above. So a change of a table is an edit above plus a step here.
STEPS: Mapping[int, Step] = {2: pruned.create, 3: _list_jobs_by_column}


def bring_up_to_date(
    connection: sa.Connection,
    *,
    where: str,
    steps: Mapping[int, Step] = STEPS,
    schema_version: int = SCHEMA_VERSION,
) -> None:
    """Create the tables, or take the steps that a database of an earlier version still lacks.

    Raises:
        NewerState: the database is of a version this program does not know; nothing was changed.
    """
    found = _stamp(connection)
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
        steps[next_version](connection)
    if (version, written_by) != (schema_version, __version__):
        connection.execute(meta.update().values(schema_version=schema_version, written_by=__version__))


def _stamp(connection: sa.Connection) -> tuple[int, str] | None:
    if not sa.inspect(connection).has_table(meta.name):
        return None
    row = connection.execute(sa.select(meta)).first()
    return None if row is None else (row.schema_version, row.written_by)

"""The tables of the journal's database."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa

from swell import __version__
from swell.model.coding import encode
from swell.model.event import JobSubmitted
from swell.model.outcome import device_s
from swell.model.view import JobView
from swell.store.errors import DamagedState, OtherVersion, remedy

SCHEMA_VERSION = 7

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
)

#: At most one row: the head's state after every batch up to and with `seq`.
folds = sa.Table(
    "folds",
    metadata,
    sa.Column("seq", Number, primary_key=True, autoincrement=False),
    sa.Column("state", sa.Text, nullable=False),
)

#: Every job that was submitted, for as long as its id and its idempotency key are not to be given again.
submissions = sa.Table(
    "submissions",
    metadata,
    sa.Column("job_id", sa.Text, primary_key=True),
    sa.Column("key", sa.Text, unique=True),  #: NULL: it was submitted without one
    sa.Column("event", sa.Text, nullable=False),  #: the `JobSubmitted`
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
)


def submission_row(event: JobSubmitted) -> dict[str, object]:
    """Row of the table `submissions`."""
    return {"job_id": event.job_id, "key": event.origin.key or None, "event": encode(event).decode()}


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


def create(connection: sa.Connection, *, where: Path) -> None:
    """Create the tables, unless they are there.

    Raises:
        OtherVersion: the database is of a version this program does not know; nothing was changed.
        DamagedState: it is no journal of Swell, or no whole one.
    """
    found = _stamp(connection, where)
    if found is None:
        metadata.create_all(connection)
        connection.execute(meta.insert().values(schema_version=SCHEMA_VERSION, written_by=__version__))
        return
    version, written_by = found
    if version != SCHEMA_VERSION:
        raise OtherVersion(
            f"{where} was written by Swell {written_by} (schema {version}); this is Swell {__version__}, "
            f"which reads schema {SCHEMA_VERSION}: install that version, "
            "or choose another folder with --state"
        )
    if written_by != __version__:
        connection.execute(meta.update().values(written_by=__version__))


def _stamp(connection: sa.Connection, where: Path) -> tuple[int, str] | None:
    """Version and program; None: there is nothing in the database yet."""
    names = sa.inspect(connection).get_table_names()
    if not names:
        return None
    row = connection.execute(sa.select(meta)).first() if meta.name in names else None
    if row is None or not isinstance(row.schema_version, int) or row.schema_version < 1:
        raise DamagedState(f"{where} is damaged (it does not say of which version it is): {remedy(where)}")
    return row.schema_version, str(row.written_by)

"""The history of metrics, in the journal's database.

What a batch tells is one row of `tallies`, in the transaction of the batch: that costs a turn little, however
many jobs report. Each metric has a row in `curves`, and with each batch a few of them take over what was told
since they were last written, so that no turn pays for all.
"""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from swell.model.event import AnyEvent, StepsReported
from swell.store import schema
from swell.store.curve import CurvePoint, compact, with_all
from swell.store.database import Database
from swell.store.schema import checksum
from swell.tally import Tally
from swell.wire.metric_names import MOST_METRICS

#: A metric's row is written so many batches after the first value that it lacks.
BATCHES_TOGETHER = 256
#: Rows written with a batch, besides twice as many as are due on average.
LEAST_ROWS = 4

#: Job and name.
MetricKey = tuple[str, str]


class ToldCurves(msgspec.Struct, frozen=True, array_like=True):
    """What a report tells of curves."""

    job_id: str
    at_s: float
    generation: int
    mark: int
    curves: dict[str, Tally]

    def points(self) -> Iterable[tuple[MetricKey, CurvePoint]]:
        for name, tally in self.curves.items():
            yield (self.job_id, name), CurvePoint(self.at_s, self.generation, self.mark, tally)


class KeptCurve(msgspec.Struct, frozen=True):
    """A metric's row."""

    seq: int  #: of the last batch in it; 0 before the first
    points: list[CurvePoint]

    def with_told(self, told: Iterable[tuple[int, CurvePoint]]) -> list[CurvePoint]:
        """The curve with what later batches told: pairs of a batch's number and a point."""
        return with_all(self.points, (point for seq, point in told if seq > self.seq))


NO_CURVE = KeptCurve(0, [])

_decode_told: Callable[[bytes], list[ToldCurves]] = msgspec.msgpack.Decoder(list[ToldCurves]).decode
_decode_points: Callable[[bytes], list[CurvePoint]] = msgspec.msgpack.Decoder(list[CurvePoint]).decode
_encode: Callable[[Any], bytes] = msgspec.msgpack.Encoder().encode


def taken_off(batch: Sequence[AnyEvent]) -> tuple[list[AnyEvent], list[ToldCurves]]:
    """The batch as the journal keeps it, and what it tells of curves."""
    told = [
        ToldCurves(event.job_id, event.at_s, event.generation, event.mark, event.curves)
        for event in batch
        if isinstance(event, StepsReported) and event.curves
    ]
    if not told:
        return list(batch), []
    return [_without_curves(event) for event in batch], told


def _without_curves(event: AnyEvent) -> AnyEvent:
    if isinstance(event, StepsReported) and event.curves:
        return msgspec.structs.replace(event, curves={}, mark=0)
    return event


class CurveBook:
    """`put` and `was_put` belong to the head's thread, reading to any."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._changing = threading.Lock()
        #: What no row has yet, with the numbers of its batches. The key that waits longest comes first.
        self._waiting: dict[MetricKey, list[tuple[int, CurvePoint]]] = {}
        self._written: list[MetricKey] = []  #: in the transaction that is open
        self._names: dict[str, set[str]] = {}  #: by job, of those that have a row
        with database.reading() as connection:
            self._load(connection)

    # ------------------------------------------------------------ with a batch
    def put(self, connection: sa.Connection, seq: int, told: Sequence[ToldCurves]) -> None:
        """Keep what batch `seq` tells, inside the transaction of the batch; `was_put` is to follow it."""
        if told:
            content = _encode(told)
            row = {"seq": seq, "told": content, "crc": _crc(content, seq)}
            connection.execute(schema.tallies.insert().prefix_with("OR REPLACE"), row)
        with self._changing:
            self._written = self._due(seq)
            waiting = {key: list(self._waiting[key]) for key in self._written}
            rest = (found[0][0] for key, found in self._waiting.items() if key not in waiting)
            oldest_seq = next(rest, seq)
        if waiting:
            self._write(connection, seq - 1, waiting)
            connection.execute(schema.tallies.delete().where(schema.tallies.c.seq < oldest_seq))

    def was_put(self, seq: int, told: Sequence[ToldCurves]) -> None:
        """The transaction has been committed."""
        with self._changing:
            for key in self._written:
                self._waiting.pop(key, None)
            self._written = []
            self._wait(seq, told)

    def _due(self, seq: int) -> list[MetricKey]:
        due: list[MetricKey] = []
        most = LEAST_ROWS + 2 * len(self._waiting) // BATCHES_TOGETHER
        for key, found in self._waiting.items():
            if len(due) == most or found[0][0] > seq - BATCHES_TOGETHER:
                break
            due.append(key)
        return due

    def _write(
        self, connection: sa.Connection, seq: int, waiting: Mapping[MetricKey, list[tuple[int, CurvePoint]]]
    ) -> None:
        """Rows of these metrics, in whole up to and with batch `seq`."""
        kept = [key for key in waiting if self._is_admitted(connection, key)]
        rows = []
        for job_id, name in kept:
            curve = self._kept(connection, job_id, name)
            points = compact(curve.with_told(waiting[job_id, name]))
            rows.append(curve_row(job_id, name, seq, points))
        put_rows(connection, rows)

    def _is_admitted(self, connection: sa.Connection, key: MetricKey) -> bool:
        """A job has `MOST_METRICS` names: its gang keeps to that, and its next gang may choose others."""
        job_id, name = key
        if (names := self._names.get(job_id)) is None:
            column = schema.curves.c.name
            of_job = sa.select(column).where(schema.curves.c.job_id == job_id)
            names = self._names[job_id] = set(connection.scalars(of_job))
        if name not in names and len(names) < MOST_METRICS:
            names.add(name)
        return name in names

    def _wait(self, seq: int, told: Iterable[ToldCurves]) -> None:
        for one in told:
            for key, point in one.points():
                self._waiting.setdefault(key, []).append((seq, point))

    def _load(self, connection: sa.Connection) -> None:
        """What was told and has no place in a row yet, of jobs that are still known."""
        pruned = set(connection.scalars(sa.select(schema.pruned.c.job_id)))
        rows = connection.execute(sa.select(schema.tallies).order_by(schema.tallies.c.seq)).all()
        for row in rows:
            told = read_told(row.seq, row.told, row.crc) or []
            self._wait(row.seq, (one for one in told if one.job_id not in pruned))

    # ------------------------------------------------------------ any thread
    def of_job(self, job_id: str, names: Collection[str] = ()) -> dict[str, list[CurvePoint]]:
        """The metrics of a job by name, sorted by it; `names`: only those, none: all."""
        with self._database.reading() as connection:
            with self._changing:  # before the rows are read: what goes there meanwhile is in both
                waiting = {name: list(told) for (job, name), told in self._waiting.items() if job == job_id}
            kept = self._kept_of_job(connection, job_id)
        found = {
            name: kept.get(name, NO_CURVE).with_told(waiting.get(name, []))
            for name in sorted(kept.keys() | waiting.keys())
            if not names or name in names
        }
        return dict(list(found.items())[:MOST_METRICS])

    def forget(self, job_ids: Iterable[str]) -> None:
        """Of jobs that have ended: what waits of them. To be called before their rows are removed."""
        gone = set(job_ids)
        with self._changing:
            for key in [key for key in self._waiting if key[0] in gone]:
                del self._waiting[key]
            for job_id in gone:
                self._names.pop(job_id, None)

    def damaged_rows(self, connection: sa.Connection) -> list[str]:
        """As `curve of a-1: loss`."""
        rows = connection.execute(sa.select(schema.curves)).all()
        told = connection.execute(sa.select(schema.tallies)).all()
        return [
            f"curve of {row.job_id}: {row.name}"
            for row in rows
            if read_curve(row.job_id, row.name, row.seq, row.points, row.crc) is None
        ] + [f"values of batch {row.seq}" for row in told if read_told(*row) is None]

    def _kept(self, connection: sa.Connection, job_id: str, name: str) -> KeptCurve:
        table = schema.curves
        one = sa.select(table).where(table.c.job_id == job_id, table.c.name == name)
        row = connection.execute(one).first()
        return NO_CURVE if row is None else read_curve(*row) or NO_CURVE

    def _kept_of_job(self, connection: sa.Connection, job_id: str) -> dict[str, KeptCurve]:
        of_job = sa.select(schema.curves).where(schema.curves.c.job_id == job_id)
        rows = connection.execute(of_job).all()
        return {row.name: curve for row in rows if (curve := read_curve(*row)) is not None}


def put_rows(connection: sa.Connection, rows: Sequence[Mapping[str, object]]) -> None:
    """Write rows of `curves`, inside the caller's transaction."""
    if rows:
        connection.execute(schema.curves.insert().prefix_with("OR REPLACE"), list(rows))


def curve_row(job_id: str, name: str, seq: int, points: Sequence[CurvePoint]) -> dict[str, object]:
    """Row of `curves`, including its checksum."""
    content = _encode(points)
    crc = _crc(content, job_id, name, seq)
    return {"job_id": job_id, "name": name, "seq": seq, "points": content, "crc": crc}


def read_curve(job_id: str, name: str, seq: int, content: bytes, crc: int) -> KeptCurve | None:
    """None if the row is not what was written."""
    try:
        is_sound = _crc(content, job_id, name, seq) == crc
        return KeptCurve(seq, _decode_points(content)) if is_sound else None
    except (msgspec.MsgspecError, TypeError):
        return None


def read_told(seq: int, content: bytes, crc: int) -> list[ToldCurves] | None:
    """None if the row is not what was written."""
    try:
        return _decode_told(content) if _crc(content, seq) == crc else None
    except (msgspec.MsgspecError, TypeError):
        return None


def _crc(content: bytes, *key: object) -> int:
    return zlib.crc32(content, checksum(*key))


def salvaged(
    kept: Mapping[MetricKey, KeptCurve], told: Mapping[int, list[ToldCurves]]
) -> dict[MetricKey, list[CurvePoint]]:
    """Curves of what is left of a journal. Their points have no generation: no gang of then will be heard."""
    later: dict[MetricKey, list[tuple[int, CurvePoint]]] = {}
    for seq, reports in sorted(told.items()):
        for one in reports:
            for key, point in one.points():
                later.setdefault(key, []).append((seq, point))
    whole = {key: kept.get(key, NO_CURVE).with_told(later.get(key, [])) for key in kept.keys() | later.keys()}
    return {
        key: [msgspec.structs.replace(point, generation=0, mark=0) for point in compact(points)]
        for key, points in sorted(whole.items())
    }

"""The history of metrics, in the journal's database.

What a batch tells is one row of `tallies`, in the transaction of the batch: that costs a turn little, however
many jobs report. With each batch a few metrics get a piece in `curves`, of all that was told of them since
their last one, so that no turn pays for all. A curve that has become too long is written again, as one piece.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from swell.model.event import AnyEvent, StepsReported
from swell.store.curve import MOST_POINTS, CurveEnd, CurvePoint, compact, with_all
from swell.store.database import Database
from swell.tally import Tally
from swell.wire.metric_names import MOST_METRICS

#: A metric gets a piece so many batches after the first value that its pieces lack.
BATCHES_TOGETHER = 256
#: Metrics written with a batch, besides twice as many as are due on average.
LEAST_ROWS = 4
#: Metrics of which it is remembered where their pieces end.
MOST_STATES = 20_000

#: Job and name.
MetricKey = tuple[str, str]


class ToldCurves(msgspec.Struct, frozen=True, array_like=True):
    """What a report tells of curves."""

    job_id: str
    at_s: float
    generation: int
    mark: int
    curves: dict[str, Tally]
    is_again: bool = False

    def points(self) -> Iterable[tuple[MetricKey, CurvePoint]]:
        for name, tally in self.curves.items():
            yield (self.job_id, name), CurvePoint(self.at_s, self.generation, self.mark, tally, self.is_again)


class Piece(NamedTuple):
    """A row of `curves`."""

    key: MetricKey
    number: int
    seq: int  #: of the last batch that is in it, or in a piece before it
    points: list[CurvePoint]


class CurveState(NamedTuple):
    """State of a metric's pieces, as far as a new piece depends on it."""

    seq: int = 0  #: of the last batch in them
    num_pieces: int = 0
    num_points: int = 0
    end: CurveEnd | None = None  #: None: there is no point

    def lacks(self, told: Iterable[tuple[int, CurvePoint]]) -> list[CurvePoint]:
        """What later batches have told, of pairs of a batch's number and a point."""
        return [point for seq, point in told if seq > self.seq]

    def is_continued_by(self, points: Sequence[CurvePoint]) -> bool:
        """Whether these are a piece of their own: they tell nothing again, and the curve is not too long."""
        is_news = self.end is None or not points or self.end.is_before(points[0])
        return is_news and self.num_points + len(points) <= MOST_POINTS


_decode_told: Callable[[bytes], list[ToldCurves]] = msgspec.msgpack.Decoder(list[ToldCurves]).decode
_decode_points: Callable[[bytes], list[CurvePoint]] = msgspec.msgpack.Decoder(list[CurvePoint]).decode
_encode: Callable[[Any], bytes] = msgspec.msgpack.Encoder().encode


def taken_off(batch: Sequence[AnyEvent]) -> tuple[list[AnyEvent], list[ToldCurves]]:
    """The batch as the journal keeps it, and what it tells of curves."""
    told = [
        ToldCurves(event.job_id, event.at_s, event.generation, event.mark, event.curves, event.is_again)
        for event in batch
        if isinstance(event, StepsReported) and event.curves
    ]
    if not told:
        return list(batch), []
    return [_without_curves(event) for event in batch], told


def _without_curves(event: AnyEvent) -> AnyEvent:
    if isinstance(event, StepsReported) and event.curves:
        return msgspec.structs.replace(event, curves={}, mark=0, is_again=False)
    return event


class CurveBook:
    """`put` and `was_put` belong to the head's thread, reading to any."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._changing = threading.Lock()
        #: What no piece has yet, with the numbers of its batches. The key that waits longest comes first.
        self._waiting: dict[MetricKey, list[tuple[int, CurvePoint]]] = {}
        #: What is known of pieces, and what the open transaction has made of it; None: the name is not kept.
        self._states: dict[MetricKey, CurveState] = {}
        self._written: dict[MetricKey, CurveState | None] = {}
        self._names: dict[str, set[str]] = {}  #: by job, of those that have a row
        with database.reading() as connection:
            self._load(connection)

    # ------------------------------------------------------------ with a batch
    def put(self, connection: sqlite3.Connection, seq: int, told: Sequence[ToldCurves]) -> None:
        """Keep what batch `seq` tells, inside the transaction of the batch; `was_put` is to follow it."""
        if told:
            connection.execute("INSERT OR REPLACE INTO tallies VALUES (?, ?)", (seq, _encode(told)))
        with self._changing:
            waiting = {key: list(self._waiting[key]) for key in self._due(seq)}
            rest = (found[0][0] for key, found in self._waiting.items() if key not in waiting)
            oldest_seq = next(rest, seq)
        self._written = {}
        if waiting:
            self._write(connection, seq - 1, waiting)
            connection.execute("DELETE FROM tallies WHERE seq < ?", (oldest_seq,))

    def was_put(self, seq: int, told: Sequence[ToldCurves]) -> None:
        """The transaction has been committed."""
        if len(self._states) > MOST_STATES:
            self._states.clear()
            self._names.clear()
        self._states |= {key: state for key, state in self._written.items() if state is not None}
        with self._changing:
            for key in self._written:
                self._waiting.pop(key, None)
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
        self,
        connection: sqlite3.Connection,
        seq: int,
        waiting: Mapping[MetricKey, list[tuple[int, CurvePoint]]],
    ) -> None:
        """Pieces of these metrics, in whole up to and with batch `seq`."""
        pieces = []
        for key, told in waiting.items():
            if not self._is_admitted(connection, key):
                self._written[key] = None
                continue
            state = self._states.get(key) or _state_of(self._pieces(connection, *key))
            points = with_all([], state.lacks(told))
            number, num_before = state.num_pieces, state.num_points
            if not state.is_continued_by(points):
                before = [point for piece in self._pieces(connection, *key) for point in piece.points]
                points = compact(with_all(before, points))
                number = num_before = 0
                connection.execute("DELETE FROM curves WHERE job_id = ? AND name = ?", key)
            if points:
                pieces.append(Piece(key, number, seq, points))
                state = CurveState(seq, number + 1, num_before + len(points), points[-1].end)
            self._written[key] = state
        put_pieces(connection, pieces)

    def _is_admitted(self, connection: sqlite3.Connection, key: MetricKey) -> bool:
        """A job has `MOST_METRICS` names: its gang keeps to that, and its next gang may choose others."""
        job_id, name = key
        if (names := self._names.get(job_id)) is None:
            rows = connection.execute("SELECT DISTINCT name FROM curves WHERE job_id = ?", (job_id,))
            names = self._names[job_id] = {found for (found,) in rows}
        if name not in names and len(names) < MOST_METRICS:
            names.add(name)
        return name in names

    def _wait(self, seq: int, told: Iterable[ToldCurves]) -> None:
        for one in told:
            for key, point in one.points():
                self._waiting.setdefault(key, []).append((seq, point))

    def _load(self, connection: sqlite3.Connection) -> None:
        """What was told and is in no piece yet, of jobs that are still known."""
        pruned = {
            job_id for (job_id,) in connection.execute("SELECT id FROM jobs WHERE pruned_s IS NOT NULL")
        }
        for seq, told in connection.execute("SELECT seq, told FROM tallies ORDER BY seq"):
            self._wait(seq, (one for one in _decode_told(told) if one.job_id not in pruned))

    # ------------------------------------------------------------ any thread
    def of_job(self, job_id: str, names: Collection[str] = ()) -> dict[str, list[CurvePoint]]:
        """The metrics of a job by name, sorted by it; `names`: only those, none: all."""
        with self._changing:  # before the pieces are read: what goes there meanwhile is in both
            waiting = {name: list(told) for (job, name), told in self._waiting.items() if job == job_id}
        with self._database.reading() as connection:
            pieces = self._pieces(connection, job_id)
        by_name: dict[str, list[Piece]] = {name: [] for name in waiting}
        for piece in pieces:
            by_name.setdefault(piece.key[1], []).append(piece)
        found = {
            name: _whole(by_name[name], waiting.get(name, []))
            for name in sorted(by_name)
            if not names or name in names
        }
        return dict(list(found.items())[:MOST_METRICS])

    def forget(self, job_ids: Iterable[str]) -> None:
        """Drop points of ended jobs that have yet to be written. Call it before their rows are removed."""
        gone = set(job_ids)
        with self._changing:
            for key in [key for key in self._waiting if key[0] in gone]:
                del self._waiting[key]

    def _pieces(self, connection: sqlite3.Connection, job_id: str, name: str | None = None) -> list[Piece]:
        """Pieces of one metric, or of all metrics of a job, in order."""
        wanted, values = "job_id = ?", [job_id]
        if name is not None:
            wanted, values = f"{wanted} AND name = ?", [job_id, name]
        columns = f"SELECT name, number, seq, points FROM curves WHERE {wanted} ORDER BY name, number"
        return [
            Piece((job_id, found), number, seq, _decode_points(points))
            for found, number, seq, points in connection.execute(columns, values)
        ]


def _state_of(pieces: Sequence[Piece]) -> CurveState:
    """State of one metric, from its pieces."""
    if not pieces:
        return CurveState()
    points = [point for piece in pieces for point in piece.points]
    last = pieces[-1]
    return CurveState(last.seq, last.number + 1, len(points), points[-1].end if points else None)


def _whole(pieces: Sequence[Piece], told: Iterable[tuple[int, CurvePoint]]) -> list[CurvePoint]:
    """A curve of its pieces, and of what later batches told."""
    points = [point for piece in pieces for point in piece.points]
    return with_all(points, _state_of(pieces).lacks(told))


def put_pieces(connection: sqlite3.Connection, pieces: Iterable[Piece]) -> None:
    """Write rows of `curves`, inside the caller's transaction."""
    rows = [(*key, number, seq, _encode(points)) for key, number, seq, points in pieces]
    connection.executemany("INSERT OR REPLACE INTO curves VALUES (?, ?, ?, ?, ?)", rows)

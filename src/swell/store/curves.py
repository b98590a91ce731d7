"""The history of metrics, in the journal's database.

What a batch tells is one row of `tallies`, in the transaction of the batch: that costs a turn little, however
many jobs report. With each batch a few jobs get a row in `curves`, of all that they have told since their
last one, so that no turn pays for all. A job that has several rows gets one in their place.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice, takewhile
from typing import Any

import msgspec

from swell.model.event import AnyEvent, StepsReported
from swell.store.database import Database
from swell.tally import Tally
from swell.wire.reports import MOST_METRICS

#: A curve with more points is compacted: the newest stay as they are, all before them become about so many.
MOST_POINTS = 1000
NEWEST_POINTS = 300
OLDER_POINTS = 400
#: A job gets a row so many batches after the first report that its rows lack.
BATCHES_TOGETHER = 256
#: Jobs that get one with a batch, besides twice as many as are due on average.
LEAST_JOBS = 1
#: A job has so many rows at most; the next one is all of them together.
MOST_ROWS = 2


class CurvePoint(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What one report told of the metric, or several that follow each other."""

    at_s: float  #: of the last report, in head time
    generation: int  #: of the gang that told it, and the mark of the report: see `StepsReported`
    mark: int
    tally: Tally

    @property
    def first_step(self) -> int:
        return self.tally.first_step

    @property
    def last_step(self) -> int:
        return self.tally.last_step

    def is_before(self, new: CurvePoint) -> bool:
        """Whether the new point tells nothing again.

        A gang may report a name twice in a step. Where a later gang does so, the step is done again; but in a
        script that counts no steps all are step 0.
        """
        if self.generation == new.generation and self.mark < new.mark:
            return self.last_step <= new.first_step  # the ordinary case, of which there are many
        is_done_again = self.generation < new.generation and new.first_step != 0
        is_same_step = self.last_step == new.first_step and is_done_again
        is_news = (self.generation, self.mark) < (new.generation, new.mark)
        return is_news and self.last_step <= new.first_step and not is_same_step


def absorb(points: list[CurvePoint], new: CurvePoint) -> None:
    """Append a point. What it tells again goes: the same report, and steps that are repeated."""
    while points and not points[-1].is_before(new):
        last = points.pop()
        is_same_report = (last.generation, last.mark) >= (new.generation, new.mark)
        kept = None if is_same_report else last.tally.before(new.first_step)
        if kept is not None:
            points.append(msgspec.structs.replace(last, tally=kept))
    points.append(new)


def compact(points: Sequence[CurvePoint]) -> list[CurvePoint]:
    """The same curve with at most `MOST_POINTS`: no count and no sum is lost.

    The older points become neighbours of like width: all parts of a long run are as fine as each other.
    """
    if len(points) <= MOST_POINTS:
        return list(points)
    older, newest = points[:-NEWEST_POINTS], points[-NEWEST_POINTS:]
    width = _measure(older)
    # Two neighbours are wider together than this, or they would be one: so there are at most OLDER_POINTS + 1
    widest = 2.0 * width(older[0], older[-1]) / OLDER_POINTS
    merged = [older[0]]
    for point in older[1:]:
        if width(merged[-1], point) <= widest:
            merged[-1] = msgspec.structs.replace(point, tally=merged[-1].tally.plus(point.tally))
        else:
            merged.append(point)
    return [*merged, *newest]


def _measure(points: Sequence[CurvePoint]) -> Callable[[CurvePoint, CurvePoint], float]:
    """How wide two points are together, with all between: in steps, or else by time."""
    if points[-1].last_step > points[0].first_step:
        return lambda first, last: float(last.last_step - first.first_step)
    return lambda first, last: last.at_s - first.at_s


Curves = dict[str, list[CurvePoint]]


class ToldCurves(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a report tells of curves."""

    job_id: str
    at_s: float
    generation: int
    mark: int
    curves: dict[str, Tally]

    def points(self) -> Iterator[tuple[str, CurvePoint]]:
        """The next point of each curve, by its name."""
        for name, tally in self.curves.items():
            yield name, CurvePoint(self.at_s, self.generation, self.mark, tally)


_decode_told: Callable[[bytes], list[ToldCurves]] = msgspec.msgpack.Decoder(list[ToldCurves]).decode
_decode_curves: Callable[[bytes], Curves] = msgspec.msgpack.Decoder(Curves).decode
_encode: Callable[[Any], bytes] = msgspec.msgpack.Encoder().encode


def taken_off(batch: Sequence[AnyEvent]) -> tuple[list[AnyEvent], list[ToldCurves]]:
    """The batch as the journal keeps it, and what it tells of curves."""
    told = [
        ToldCurves(event.job_id, event.at_s, event.generation, event.mark, event.curves)
        for event in batch
        if isinstance(event, StepsReported) and event.curves
    ]
    without = [
        msgspec.structs.replace(event, curves={}, mark=0)
        if isinstance(event, StepsReported) and event.curves
        else event
        for event in batch
    ]
    return without, told


class CurveStore:
    """`put` and `was_put` belong to the head's thread, reading to any."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._changing = threading.Lock()
        #: What jobs have told that is in no row of theirs yet, with the numbers of its batches. The job that
        #: waits longest comes first.
        self._waiting: dict[str, list[tuple[int, ToldCurves]]] = {}
        with database.reading() as connection:
            pruned = dict(connection.execute("SELECT id, id FROM jobs WHERE pruned_s IS NOT NULL"))
            for seq, told in connection.execute("SELECT seq, told FROM tallies ORDER BY seq"):
                self._wait(seq, (one for one in _decode_told(told) if one.job_id not in pruned))

    # ------------------------------------------------------------ with a batch
    def put(self, connection: sqlite3.Connection, seq: int, told: Sequence[ToldCurves]) -> list[str]:
        """Keep what batch `seq` tells, inside the transaction of the batch; `was_put` is to follow it.

        Returns jobs of which nothing of earlier batches waits any longer.
        """
        if told:
            connection.execute("INSERT OR REPLACE INTO tallies VALUES (?, ?)", (seq, _encode(told)))
        with self._changing:
            waiting = {job_id: list(self._waiting[job_id]) for job_id in self._due(seq)}
            rest = (found[0][0] for job_id, found in self._waiting.items() if job_id not in waiting)
            oldest_seq = next(rest, seq)
        for job_id, found in waiting.items():
            _write(connection, job_id, seq - 1, found)
        if waiting:
            connection.execute("DELETE FROM tallies WHERE seq < ?", (oldest_seq,))
        return list(waiting)

    def was_put(self, seq: int, told: Iterable[ToldCurves], written: Iterable[str]) -> None:
        """The transaction has been committed, in which `put` has returned these jobs."""
        with self._changing:
            for job_id in written:
                self._waiting.pop(job_id, None)
            self._wait(seq, told)

    def _due(self, seq: int) -> list[str]:
        most = LEAST_JOBS + 2 * len(self._waiting) // BATCHES_TOGETHER
        due = takewhile(lambda one: one[1][0][0] <= seq - BATCHES_TOGETHER, self._waiting.items())
        return [job_id for job_id, _ in islice(due, most)]

    def _wait(self, seq: int, told: Iterable[ToldCurves]) -> None:
        for one in told:
            self._waiting.setdefault(one.job_id, []).append((seq, one))

    # ------------------------------------------------------------ any thread
    def of_job(self, job_id: str, names: Collection[str] = ()) -> Curves:
        """The metrics of a job by name, sorted by it; `names`: only those, none: all."""
        with self._changing:  # before the rows are read: what goes there meanwhile is in both
            waiting = list(self._waiting.get(job_id, ()))
        with self._database.reading() as connection:
            rows = _rows(connection, job_id)
        curves = _joined(rows, waiting)
        return {name: curves[name] for name in sorted(curves) if not names or name in names}

    def forget(self, job_ids: Iterable[str]) -> None:
        """Drop what ended jobs have told and is in no row. Call it before their rows are removed."""
        with self._changing:
            for job_id in job_ids:
                self._waiting.pop(job_id, None)


def _write(connection: sqlite3.Connection, job_id: str, seq: int, told: list[tuple[int, ToldCurves]]) -> None:
    """Have all in the job's rows that it has told up to and with batch `seq`."""
    state = "SELECT count(*), coalesce(max(seq), 0) FROM curves WHERE job_id = ?"
    num_rows, last_seq = connection.execute(state, (job_id,)).fetchone()
    if last_seq >= seq:  # by an append that failed after its commit
        return
    if num_rows < MOST_ROWS:
        curves = _joined([], [one for one in told if one[0] > last_seq])
    else:
        joined = _joined(_rows(connection, job_id), told)
        curves = {name: compact(points) for name, points in joined.items()}
        connection.execute("DELETE FROM curves WHERE job_id = ?", (job_id,))
    connection.execute("INSERT INTO curves VALUES (?, ?, ?)", (job_id, seq, _encode(curves)))


def _rows(connection: sqlite3.Connection, job_id: str) -> list[tuple[int, Curves]]:
    in_order = "SELECT seq, points FROM curves WHERE job_id = ? ORDER BY seq"
    return [(seq, _decode_curves(points)) for seq, points in connection.execute(in_order, (job_id,))]


def _joined(rows: Sequence[tuple[int, Curves]], told: Iterable[tuple[int, ToldCurves]]) -> Curves:
    """The curves of a job, of its rows and of what later batches have told.

    It has `MOST_METRICS` names: its gang keeps to that, and its next gang may choose others.
    """
    curves = rows[0][1] if rows else {}
    for _, row in rows[1:]:
        for name, points in row.items():
            for point in points:
                _put(curves, name, point)
    last_seq = rows[-1][0] if rows else 0
    for seq, one in told:
        if seq > last_seq:
            for name, point in one.points():
                _put(curves, name, point)
    return curves


def _put(curves: Curves, name: str, point: CurvePoint) -> None:
    if name in curves:
        absorb(curves[name], point)
    elif len(curves) < MOST_METRICS:
        curves[name] = [point]

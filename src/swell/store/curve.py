"""The history of one metric: points in order of steps, exact near the end, few before."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from swell.tally import Tally

#: A curve with more points is compacted: the newest stay as they are, all before them become about so many.
MOST_POINTS = 1000
NEWEST_POINTS = 300
OLDER_POINTS = 400


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

"""The metrics of a job as its open pages show them: whole curves at first, then the points that come."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

import msgspec

from swell.live.platform import Platform
from swell.model.view import MetricHistory, MetricSeries

#: After so many new points pages get a curve whole again: older points of a long one are merged.
MOST_NEW_POINTS = 500


class ShownCurve(msgspec.Struct, frozen=True, kw_only=True):
    """Points of a metric in columns, as in `MetricSeries`."""

    name: str
    is_whole: bool  #: they take the place of those before; else they follow them
    first_step: list[int]
    last_step: list[int]
    at_s: list[float]
    not_finite: list[int]
    mean: list[float | None]
    min: list[float | None]
    max: list[float | None]


class FollowedCurves:
    """Keeps no points: a page that begins is told what the platform has by then."""

    def __init__(self, control: Platform, job_id: str) -> None:
        self._control, self._job_id = control, job_id
        self._num_new: Counter[str] = Counter()

    def whole(self, names: Collection[str] = ()) -> list[ShownCurve]:
        """Return the whole curves of these metrics, or of all if `names` is empty. Raises UnknownJob."""
        found = self._control.metrics(self._job_id, names)
        return [_shown(series, is_whole=True) for series in found.series]

    def look(self, told: MetricHistory | None, again: Collection[str] | None) -> list[ShownCurve]:
        """What pages are to be told. Raises UnknownJob.

        Args:
            told: points that follow those before.
            again: metrics of which it is not enough to tell new points; None: all.
        """
        if again is None:
            self._num_new.clear()
            return self.whole()
        series = [] if told is None else told.series
        self._num_new.update({one.name: len(one.at_s) for one in series})
        whole = {*again, *(name for name, number in self._num_new.items() if number > MOST_NEW_POINTS)}
        for name in whole:
            del self._num_new[name]
        sequels = [_shown(one, is_whole=False) for one in series if one.name not in whole]
        return [*sequels, *(self.whole(whole) if whole else ())]


def _shown(series: MetricSeries, is_whole: bool) -> ShownCurve:
    return ShownCurve(
        name=series.name,
        is_whole=is_whole,
        first_step=series.first_step,
        last_step=series.last_step,
        at_s=series.at_s,
        not_finite=series.not_finite,
        mean=series.mean,
        min=series.min,
        max=series.max,
    )

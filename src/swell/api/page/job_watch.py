"""One job that open pages show: what they are told of it, read and encoded once for all of them."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from functools import partial
from typing import Any, NamedTuple

import msgspec

from swell import __version__
from swell.api.logs import LogOwner
from swell.api.page.event_ring import EventRing
from swell.api.page.followed_curves import FollowedCurves, ShownCurve
from swell.api.page.followed_log import FollowedLog, LogNews
from swell.api.page.job_parts import REASON, STORY, JobParts, RenderedParts
from swell.api.page.job_rows import JobRow, becomes_overdue, changed_fields, job_row
from swell.live.platform import Platform
from swell.model.coding import encode
from swell.model.errors import UnknownJob
from swell.model.view import JobView, MetricHistory

#: Fields of a row that change all the time: of the first no part tells, of the others one does.
NUMBERS = frozenset({"steps", "loss", "done", "expected_s"})
REASONS = frozenset({"reason", "message", "warnings"})
#: Changes of size that the curves mark, the newest.
MOST_SIZES = 200
#: Of events that a page which was away hears again.
JOB_BYTES_KEPT = 256 << 10


class ShownJob(msgspec.Struct, frozen=True, kw_only=True):
    """All that the page of a job shows, at one place of the sequence."""

    id: str
    version: str = __version__
    now_s: float
    row: JobRow
    sizes: list[tuple[float, int]]
    parts: Mapping[str, str]  #: HTML by the id of its element
    metrics: list[ShownCurve]
    log: LogNews


class JobHeard(NamedTuple):
    """What the platform tells of a job since the last look."""

    is_changed: bool = True
    is_told: bool = False  #: a story of it
    told: MetricHistory | None = None  #: new points of its metrics
    again: Collection[str] | None = ()  #: metrics that are to be read whole; None: all


class JobChannel:
    """Pages of the job that show the same log, of users with the same rights."""

    def __init__(self, watch: JobWatch, whose: LogOwner, may_change: bool) -> None:
        self.whose, self.may_change = whose, may_change
        self.ring = EventRing(partial(watch.shown, self), bytes_kept=JOB_BYTES_KEPT)
        self.left_s: float | None = None  #: since when no page reads it, by a steady clock


class JobWatch:
    """Thread-safe. It reads nothing before a page has asked for what is shown."""

    def __init__(self, control: Platform, job_id: str) -> None:
        self._control, self._job_id = control, job_id
        self._lock = threading.Lock()
        self.channels: dict[tuple[LogOwner, bool], JobChannel] = {}  #: which `JobStreams` opens and closes
        self.rests_until_s: float | None = None  #: after a look that has failed
        self._known: _Known | None = None

    def shown(self, channel: JobChannel) -> ShownJob:
        """The present state, with the place in the channel's sequence from which events go on.

        Raises UnknownJob.
        """
        with self._lock:
            if self._known is None:
                self._known = _Known(self._control, self._job_id)
            return self._known.shown(channel)

    def look(self, heard: JobHeard, clock_s: float) -> None:
        """Tell pages what has changed.

        Args:
            clock_s: by a steady clock.
        """
        with self._lock:
            if self._known is None:
                return
            try:
                self._known.look(heard, clock_s, list(self.channels.values()))
            except UnknownJob:  # it was pruned
                self._known = None
                for channel in list(self.channels.values()):
                    channel.ring.publish({"now_s": self._control.now_s(), "is_gone": True})

    def lose(self) -> None:
        """A look has failed, and what it would have told is not known: pages are to begin again."""
        with self._lock:
            self._known = None
            for channel in list(self.channels.values()):
                channel.ring.begin_again()


class _Known:
    """What pages of the job have been told. Raises UnknownJob, all of it."""

    def __init__(self, control: Platform, job_id: str) -> None:
        self._control, self._job_id = control, job_id
        self._view = control.job(job_id)
        self._row = job_row(self._view, control.now_s())
        self._parts = RenderedParts(JobParts(control, job_id))
        self._curves = FollowedCurves(control, job_id)
        self._logs: dict[LogOwner, FollowedLog] = {}

    def shown(self, channel: JobChannel) -> ShownJob:
        if channel.whose not in self._logs:
            self._logs[channel.whose] = FollowedLog(self._control.log_dir(self._job_id), channel.whose)
        return ShownJob(
            id=channel.ring.last_id,
            now_s=self._control.now_s(),
            row=self._row,
            sizes=latest_sizes(self._view),
            parts=self._parts.whole(self._view, self._row, channel.may_change),
            metrics=self._curves.whole(),
            log=self._logs[channel.whose].whole(),
        )

    def look(self, heard: JobHeard, clock_s: float, channels: list[JobChannel]) -> None:
        now_s = self._control.now_s()
        delta: dict[str, Any] = {}
        if heard.is_changed or becomes_overdue(self._row, now_s):
            delta |= self._new_view(now_s)
        if heard.is_told:
            self._parts.touch((STORY, REASON))
        if curves := self._curves.look(heard.told, heard.again):
            delta["metrics"] = curves
        common = _encoded(delta)
        parts = _encoded(self._parts.look(self._view, self._row, clock_s))
        logs = _encoded(self._new_lines(clock_s, {channel.whose for channel in channels}))
        for channel in channels:
            own = {"parts": parts.get(channel.may_change), "log": logs.get(channel.whose)}
            told = common | {name: content for name, content in own.items() if content is not None}
            if told:
                channel.ring.publish({"now_s": now_s, **told})

    def _new_lines(self, clock_s: float, shown: Collection[LogOwner]) -> dict[LogOwner, LogNews | None]:
        """New lines of the logs that some page shows; the other logs are no longer followed."""
        self._logs = {whose: log for whose, log in self._logs.items() if whose in shown}
        has_ended = self._view.phase.is_end
        return {whose: log.look(clock_s, has_ended) for whose, log in self._logs.items()}

    def _new_view(self, now_s: float) -> dict[str, Any]:
        """What is new in its row, and its sizes."""
        before, self._view = self._view, self._control.job(self._job_id)
        row_before, self._row = self._row, job_row(self._view, now_s, self._row)
        fields = changed_fields(row_before, self._row)
        self._touch(before, fields)
        delta = {"row": fields} if fields else {}
        return delta if self._view.sizes == before.sizes else delta | {"sizes": latest_sizes(self._view)}

    def _touch(self, before: JobView, fields: Mapping[str, Any]) -> None:
        """Parts of which something in the view or these fields of the row may tell."""
        view = self._view
        is_same = (view.reason_code, view.resize_history) == (before.reason_code, before.resize_history)
        if not is_same or not fields.keys() <= NUMBERS | REASONS:
            self._parts.touch()
        elif not fields.keys() <= NUMBERS:
            self._parts.touch((REASON,))
        if view.share_changes != before.share_changes:
            self._parts.touch((STORY,))


def latest_sizes(view: JobView) -> list[tuple[float, int]]:
    """(time, workers) from each time on."""
    return [(round(at_s, 2), workers) for at_s, workers in view.sizes[-MOST_SIZES:]]


def _encoded(delta: Mapping[Any, Any]) -> dict[Any, msgspec.Raw]:
    """Each part that there is, for the events of several channels."""
    return {name: msgspec.Raw(encode(part)) for name, part in delta.items() if part}

"""Spans of jobs and of slow turns, from the turns of the head."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from swell.live.tracing.job_trace import WAITING, JobTrace
from swell.live.tracing.span import FinishedSpan, SpanSink, SpanValue, child_id_of, root_id_of, trace_id_of
from swell.live.turn_feed import Turn
from swell.model.calendar import Calendar
from swell.model.view import JobView, Story

#: Unfinished spans that are sent at the end: as many as a queue and the last second take.
MOST_UNFINISHED = 1000

log = logging.getLogger("swell.traces")


class Tracer:
    """Listens to turns. What a job's story told before the first one is known, and is not sent again.

    Args:
        slow_turn_s: a turn that took as long is a trace.
    """

    def __init__(self, sink: SpanSink, slow_turn_s: float) -> None:
        self._sink, self._slow_turn_s = sink, slow_turn_s
        self._traces: dict[str, JobTrace] = {}  #: of open jobs
        self._now_s, self._calendar = 0.0, Calendar()

    def begin(self, view: JobView, stories: Sequence[Story], now_s: float, calendar: Calendar) -> None:
        """An open job with all of its stories so far."""
        self._now_s, self._calendar = now_s, calendar
        self._traces[view.id] = JobTrace(view)
        self._traces[view.id].hear(view, stories)

    def hear(self, turn: Turn) -> None:
        """See `TurnListener`."""
        news, stories = turn.news, defaultdict[str, list[Story]](list)
        self._now_s, self._calendar = news.now_s, news.calendar
        for job_id, story in news.stories:
            stories[job_id].append(story)
        for view in (*news.changed, *news.ended):
            if view.id not in self._traces:
                self._traces[view.id] = JobTrace(view)
            self._put(self._traces[view.id].hear(view, stories[view.id]))
        for view in news.ended:
            self._traces.pop(view.id, None)
        if turn.took.turn_s >= self._slow_turn_s:
            self._put(_spans_of(turn))

    def look(self) -> None:
        """No span ends between turns."""

    def stop(self) -> None:
        """No more turn is heard. What is open is sent as unfinished: of few jobs, first those that train."""
        traces = sorted(self._traces.values(), key=lambda trace: trace.stage == WAITING)
        num_put = num_told = 0
        for trace in traces:
            spans = trace.unfinished(self._now_s)
            if num_put + len(spans) > MOST_UNFINISHED:
                break
            self._put(spans)
            num_put, num_told = num_put + len(spans), num_told + 1
        if num_left := len(traces) - num_told:
            log.warning("the unfinished spans of %d open jobs are left out: there are too many", num_left)
        self._traces.clear()
        self._sink.close()

    def _put(self, spans: Iterable[FinishedSpan]) -> None:
        time_of = self._calendar.time_of
        for span in spans:
            self._sink.put(replace(span, begin_s=time_of(span.begin_s), end_s=time_of(span.end_s)))


def _spans_of(turn: Turn) -> Iterator[FinishedSpan]:
    """Spans of a turn, its commit and its decision; the turn begins at the latest event of its batch."""
    key, begin_s, took = f"turn {turn.seq} {turn.news.now_s!r}", turn.news.now_s, turn.took
    decided_s = took.journal_s + took.decision_s
    events = sorted({type(event).__name__ for event in turn.batch})
    told: dict[str, SpanValue] = {
        "swell.turn.seq": turn.seq,
        "swell.turn.events": events,
        "swell.turn.num_events": len(turn.batch),
    }
    parts = ("turn", 0.0, took.turn_s), ("commit", 0.0, took.journal_s), ("decide", took.journal_s, decided_s)
    for name, from_s, to_s in parts:
        is_root = name == "turn"
        yield FinishedSpan(
            trace_id=trace_id_of(key),
            span_id=root_id_of(key) if is_root else child_id_of(key, name, from_s, to_s),
            parent_id=None if is_root else root_id_of(key),
            name=name,
            begin_s=begin_s + from_s,
            end_s=begin_s + to_s,
            attributes=told if is_root else {},
        )

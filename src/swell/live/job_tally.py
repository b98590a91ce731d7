"""What became of jobs and of promises since the daemon's start, counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import StrEnum

from swell.live.turns import Turn
from swell.model.calendar import Calendar
from swell.model.event import JobSubmitted
from swell.model.job import JobClass, Phase
from swell.model.view import JobView


class AfterNoPromise(StrEnum):
    """What became of a job whose deadline was not promised."""

    ENDED = "ended"  #: it was refused, with a counter-offer
    TRIED = "tried"  #: it runs as a soft job
    UNCHANGED = "unchanged"  #: it asked for another deadline, and keeps what it had


#: Code of a story -> what it tells of a refusal. A job that ends is counted when it ends.
TOLD_REFUSALS = {"unpromised": AfterNoPromise.TRIED, "change_refused": AfterNoPromise.UNCHANGED}


class JobTally:
    """Listens to turns; not thread-safe."""

    def __init__(self) -> None:
        self.events: Counter[str] = Counter()  #: by name of its type
        self.stories: Counter[str] = Counter()  #: by code
        self.submitted: Counter[JobClass] = Counter()
        self.ended: Counter[tuple[Phase, JobClass]] = Counter()
        self.num_promised = 0
        self.num_kept = 0
        self.missed: Counter[Phase] = Counter()  #: by how the job ended
        self.refused: Counter[AfterNoPromise] = Counter()
        self._promised_s: dict[str, float] = {}  #: open job -> calendar time that it was promised

    def begin(self, views: Iterable[JobView], calendar: Calendar) -> None:
        """What was promised to these, which are open, counts no more."""
        self._promised_s = {view.id: _deadline_s(view, calendar) for view in views if view.is_promised}

    def hear(self, turn: Turn) -> None:
        news = turn.news
        self.events.update(type(event).__name__ for event in turn.batch)
        self.submitted.update(event.spec.job_class for event in turn.batch if isinstance(event, JobSubmitted))
        for _, story in news.stories:
            self.stories[story.code] += 1
            if story.code in TOLD_REFUSALS:
                self.refused[TOLD_REFUSALS[story.code]] += 1
        for view in (*news.changed, *news.ended):
            if view.is_promised:
                self._note_promise(view, news.calendar)
        for view in news.ended:
            self._note_end(view)

    def _note_promise(self, view: JobView, calendar: Calendar) -> None:
        """Times of day are compared: a step of the machine's clock moves head times, and promises nothing."""
        deadline_s = _deadline_s(view, calendar)
        if self._promised_s.get(view.id) != deadline_s:
            self._promised_s[view.id] = deadline_s
            self.num_promised += 1

    def _note_end(self, view: JobView) -> None:
        self.ended[view.phase, view.job_class] += 1
        self._promised_s.pop(view.id, None)
        if view.phase is Phase.REJECTED and view.job_class is JobClass.STRICT:
            self.refused[AfterNoPromise.ENDED] += 1
        if view.is_promised and view.kept is not None:
            if view.kept:
                self.num_kept += 1
            else:
                self.missed[view.phase] += 1


def _deadline_s(view: JobView, calendar: Calendar) -> float:
    return round((view.deadline_s or 0.0) + calendar.offset_s, 3)

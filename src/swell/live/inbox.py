"""Where events wait until the head has time for them. Any thread puts, one takes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Any, TypeVar

from swell.live.clock import HeadClock
from swell.model.errors import Unavailable
from swell.model.event import AnyEvent, Event, JobEvent, JobProfiled, JobSubmitted, StepsReported
from swell.model.lengths import span
from swell.model.report_folding import can_fold, fold

#: A request is answered once it is in the journal; that takes milliseconds.
TAKEN_WITHIN_S = 10.0
#: A question is answered between two turns of the head, which take milliseconds.
ANSWERED_WITHIN_S = 10.0
#: Progress alone wakes the head at most so often: the journal stays small.
REPORTS_WAIT_S = 1.0
#: A wait ends so often without an event: the machine may have been asleep, or its clock may have been set.
LOOK_EVERY_S = 2.0

#: The result of a trial run may wait for so many turns, and at most so long: then one plan is made for all
#: that came meanwhile. With thousands of open jobs a plan takes milliseconds, for one newcomer or for ten.
TURNS_OF_A_WAIT, MOST_WAIT_S = 5, 0.25
#: A turn that took long is remembered over some short ones: with each it counts for so much of what it was.
FADING = 0.9
#: Without the others, these lead to no plan at once.
PLANLESS = (JobSubmitted, StepsReported, JobProfiled)


Answer = TypeVar("Answer")


class Inbox:
    """Events in order of arrival. Progress reports of one gang are folded into one."""

    def __init__(self, clock: HeadClock) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        self._events: list[AnyEvent] = []
        self._is_urgent = False
        self._questions: list[tuple[Callable[[], None], Future[Any]]] = []  #: to be answered between turns
        self._due_s: float | None = None  #: when those are taken that are not urgent
        self._begun_s: float | None = None  #: when the turn began that is under way
        self._turn_s = 0.0  #: what the longest of the latest turns took
        self._requests: list[tuple[AnyEvent, Future[bool]]] = []  #: whose event still waits
        self._taken: list[tuple[AnyEvent, Future[bool]]] = []  #: whose event is in the turn under way
        self._is_closed = False

    def put(self, event: AnyEvent) -> None:
        """Thread-safe. A progress report alone wakes the scheduler only after `REPORTS_WAIT_S`.

        That of a gang's first step does at once: the loss before anything is learnt is what later ones are
        compared with, and folded with another report it would be lost. Results of trial runs wait for each
        other, for as long as a few turns take.
        """
        with self._changed:
            self._events.append(event)
            if isinstance(event, JobProfiled):
                wait_s = min(TURNS_OF_A_WAIT * self._turn_s, MOST_WAIT_S)
            elif isinstance(event, StepsReported) and not _is_first(event):
                wait_s = REPORTS_WAIT_S
            else:
                self._is_urgent = True
                self._changed.notify()
                return
            due_s = self._clock.now_s() + wait_s
            if self._due_s is None or due_s < self._due_s:
                self._due_s = due_s
                self._changed.notify()

    def request(self, event: AnyEvent) -> Future[bool]:
        """Put an event whose sender waits for it to be in the journal, and handled.

        The result is False if the event was stale. Many requests share one batch, and so one write. If the
        head ends before that, the result is the error Unavailable.
        """
        receipt: Future[bool] = Future()
        with self._changed:
            if self._is_closed:
                receipt.set_exception(_closed())
                return receipt
            self._requests.append((event, receipt))
            self.put(event)
        return receipt

    def ask(self, event: AnyEvent, doubt: str) -> bool:
        """Put an event and wait until it is in the journal, and handled; False if it was stale.

        Args:
            doubt: what is not known if it is not taken in time.

        Raises:
            Unavailable: it was not, or the head has ended.
        """
        try:
            return self.request(event).result(TAKEN_WITHIN_S)
        except TimeoutError as error:
            raise Unavailable(
                f"{doubt}: the scheduler did not take it within {span(TAKEN_WITHIN_S)}; look at daemon.log "
                "and `swell jobs` before you ask again"
            ) from error

    def consult(self, answer: Callable[[], Answer]) -> Answer:
        """Return what the head's thread answers between two turns.

        Raises Unavailable, if a turn takes too long or the head has ended, and whatever `answer` raises: the
        head goes on.
        """
        asked: Future[Answer] = Future()

        def settle() -> None:
            try:
                asked.set_result(answer())
            except Exception as error:  # noqa: BLE001 - the thread that asked raises it
                asked.set_exception(error)

        with self._changed:  # nothing has happened: no event is taken early
            if self._is_closed:
                raise _closed()
            self._questions.append((settle, asked))
            self._changed.notify()
        try:
            return asked.result(ANSWERED_WITHIN_S)
        except TimeoutError:
            raise Unavailable(
                f"the scheduler was busy for {span(ANSWERED_WITHIN_S)} and did not answer; nothing was "
                "changed: ask again"
            ) from None

    def answer_all(self) -> None:
        """Answer what other threads have asked, while the head stands."""
        with self._changed:
            questions, self._questions = self._questions, []
        for settle, _ in questions:
            settle()

    def settle(self, ignored: Iterable[Event]) -> None:
        """The turn is over: answer the requests whose events it took; those `ignored` were stale."""
        with self._changed:
            taken, self._taken = self._taken, []
        stale = {id(event) for event in ignored}
        for event, receipt in taken:
            receipt.set_result(id(event) not in stale)

    def close(self) -> None:
        """The head takes no more: all that wait for it, and all who come later, are told so."""
        with self._changed:
            self._is_closed = True
            waiting = [*self._taken, *self._requests, *self._questions]
            self._taken, self._requests, self._questions = [], [], []
        for _, receipt in waiting:
            receipt.set_exception(_closed())

    def take(self, until_s: float | None) -> list[AnyEvent]:
        """All that is there, by `at_s`, as soon as there is anything to do.

        Empty at `until_s`, when the head is consulted, and after LOOK_EVERY_S.
        """
        with self._changed:
            self._note_turn()
            while not self._is_urgent:
                if self._questions:
                    return []
                dues_s = [due_s for due_s in (until_s, self._due_s) if due_s is not None]
                wait_s = min(dues_s) - self._clock.now_s() if dues_s else LOOK_EVERY_S
                if wait_s <= 0:
                    break
                if not self._changed.wait(min(wait_s, LOOK_EVERY_S)) and wait_s >= LOOK_EVERY_S:
                    return []
            taken = self._take_due()
            self._taken += self._requests
            self._requests = []
            self._is_urgent = False
            self._begun_s = self._clock.now_s()
        return sorted(fold_reports(taken), key=lambda event: event.at_s)

    def _note_turn(self) -> None:
        """The turn that was under way is over."""
        if self._begun_s is not None:
            self._turn_s = max(self._clock.now_s() - self._begun_s, FADING * self._turn_s)
            self._begun_s = None

    def _take_due(self) -> list[AnyEvent]:
        """All; but results of trial runs stay until they are due where what is urgent needs no plan."""
        events, self._events = self._events, []
        is_due = self._due_s is not None and self._clock.now_s() >= self._due_s
        if is_due or not self._is_urgent or not all(isinstance(event, PLANLESS) for event in events):
            self._due_s = None
            return events
        self._events = [event for event in events if isinstance(event, JobProfiled)]
        if not self._events:
            self._due_s = None
        return [event for event in events if not isinstance(event, JobProfiled)]


def _closed() -> Unavailable:
    return Unavailable(
        "the platform is stopping, or has failed, and takes no more requests; start it with `swell up` and "
        "send the request again: a submission under the same key is taken once"
    )


def fold_reports(events: Iterable[AnyEvent]) -> list[AnyEvent]:
    """The same events, with a gang's reports that nothing else of its job separates made one."""
    folded: list[AnyEvent] = []
    latest: dict[str, int] = {}  # job -> where its latest report is, unless something came after it
    for event in events:
        if not isinstance(event, StepsReported):
            if isinstance(event, JobEvent):
                latest.pop(event.job_id, None)
            folded.append(event)
            continue
        place = latest.get(event.job_id)
        earlier = folded[place] if place is not None else None
        if place is not None and isinstance(earlier, StepsReported) and can_fold(earlier, event):
            folded[place] = fold(earlier, event)
        else:
            latest[event.job_id] = len(folded)
            folded.append(event)
    return folded


def _is_first(report: StepsReported) -> bool:
    """Whether the report is of the first step that a gang makes at its size."""
    return report.brings_steps and report.step_s is None and report.loss is not None

"""Where events and requests wait for the head's thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Any, TypeVar

from swell.live.clock import HeadClock
from swell.model.errors import Unavailable
from swell.model.event import (
    AnyEvent,
    Event,
    EventSetAside,
    JobEvent,
    JobProfiled,
    JobSubmitted,
    RunningWork,
    StepsReported,
)
from swell.model.quantities import span
from swell.model.report_folding import can_fold, fold

#: A request is answered once it is in the journal; that takes milliseconds.
TAKEN_WITHIN_S = 10.0
#: A question is answered between two turns of the head, which take milliseconds.
ANSWERED_WITHIN_S = 10.0
#: Progress alone wakes the head at most so often: the journal stays small.
REPORTS_WAIT_S = 1.0
#: A wait ends so often without an event: the machine may have been asleep, or its clock may have been set.
LOOK_EVERY_S = 2.0
#: The result of a trial run waits so long: then one plan is made for all that came meanwhile. With thousands
#: of open jobs a plan takes milliseconds, for one newcomer or for ten.
RESULTS_WAIT_S = 0.05
#: Without the others, these lead to no plan at once.
PLANLESS = (JobSubmitted, StepsReported, JobProfiled)

CANNOT_HANDLE = "the scheduler could not handle this request, which was set aside and changes nothing"

Answer = TypeVar("Answer")
#: What an agent runs, and since when.
FoundWork = tuple[RunningWork, float]


class HeadQueue:
    """Events in order of arrival. Progress reports of one gang are folded into one.

    When another agent has come, the events of the one before are taken before what it runs.
    """

    def __init__(self, clock: HeadClock) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        self._events: list[AnyEvent] = []
        self._replacement: FoundWork | None = None  #: of an agent that has replaced another
        self.replacement: FoundWork | None = None  #: likewise, once all that came before is taken
        self._is_urgent = False
        self._questions: list[tuple[Callable[[], None], Future[Any]]] = []  #: to be answered between turns
        self._due_s: float | None = None  #: when those are taken that are not urgent
        self._requests: list[tuple[AnyEvent, Future[bool]]] = []  #: whose event still waits
        self._taken: list[tuple[AnyEvent, Future[bool]]] = []  #: whose event is in the turn under way
        self._is_closed = False

    def put_event(self, event: AnyEvent) -> None:
        """Thread-safe. A progress report alone wakes the scheduler only after `REPORTS_WAIT_S`.

        That of a gang's first step does at once: the loss before anything is learnt is what later ones are
        compared with, and folded with another report it would be lost. Results of trial runs wait for each
        other.
        """
        with self._changed:
            self._events.append(event)
            if isinstance(event, JobProfiled):
                wait_s = RESULTS_WAIT_S
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

    def put_replacement(self, work: RunningWork) -> None:
        """Another agent has come, which runs this."""
        with self._changed:
            self._replacement, self._is_urgent = (work, self._clock.now_s()), True
            self._changed.notify()

    def put_and_wait(self, event: AnyEvent, doubt: str) -> bool:
        """Put an event and wait until it is in the journal, and handled; False if it was stale.

        Many requests share one batch, and so one write.

        Args:
            doubt: what is not known if it is not taken in time.

        Raises:
            Unavailable: it was not, or the head has ended.
        """
        return self.wait_for_receipt(self.put_request(event), doubt)

    def put_request(self, event: AnyEvent) -> Future[bool]:
        """Put an event; `wait_for_receipt` takes the answer. Raises Unavailable: the head has ended."""
        receipt: Future[bool] = Future()
        with self._changed:
            if self._is_closed:
                raise _closed()
            self._requests.append((event, receipt))
            self.put_event(event)
        return receipt

    def wait_for_receipt(self, receipt: Future[bool], doubt: str) -> bool:
        """Wait as `put_and_wait` does for an event that was put."""
        try:
            return receipt.result(TAKEN_WITHIN_S)
        except TimeoutError as error:
            raise Unavailable(
                f"{doubt}: the scheduler did not take it within {span(TAKEN_WITHIN_S)}; look at daemon.log "
                "and `swell jobs` before you ask again"
            ) from error

    def call_between_turns(self, answer: Callable[[], Answer]) -> Answer:
        """Return what the head's thread answers between two turns.

        Raises Unavailable, if a turn takes too long or the head has ended, and whatever `answer` raises: the
        head goes on.
        """
        asked: Future[Answer] = Future()

        def answer_question() -> None:
            if not asked.set_running_or_notify_cancel():
                return
            try:
                asked.set_result(answer())
            except Exception as error:  # noqa: BLE001 - the thread that asked raises it
                asked.set_exception(error)

        with self._changed:  # nothing has happened: no event is taken early
            if self._is_closed:
                raise _closed()
            self._questions.append((answer_question, asked))
            self._changed.notify()
        try:
            return asked.result(ANSWERED_WITHIN_S)
        except TimeoutError:
            if not asked.cancel():  # it is being answered
                return asked.result()
            raise Unavailable(
                f"the scheduler was busy for {span(ANSWERED_WITHIN_S)} and did not answer; nothing was "
                "changed: ask again"
            ) from None

    def answer_questions(self) -> None:
        """Answer what other threads have asked, while the head stands."""
        with self._changed:
            questions, self._questions = self._questions, []
        for answer_question, _ in questions:
            answer_question()

    def answer_requests(self, ignored: Iterable[Event], set_aside: Iterable[EventSetAside] = ()) -> None:
        """The turn is over: answer the requests whose events it took; those `ignored` were stale.

        A request that was set aside fails, but for a submission: its job is there, and tells why it failed.
        """
        with self._changed:
            taken, self._taken = self._taken, []
        stale = {id(event) for event in ignored}
        faults = {id(one.event): one.why for one in set_aside if not isinstance(one.event, JobSubmitted)}
        for event, receipt in taken:
            if (why := faults.get(id(event))) is not None:
                receipt.set_exception(Unavailable(f"{CANNOT_HANDLE}: {why}; `swell doctor` shows more"))
            else:
                receipt.set_result(id(event) not in stale)

    def close(self) -> None:
        """The head takes no more: all that wait for it, and all who come later, are told so."""
        with self._changed:
            self._is_closed = True
            waiting = [*self._taken, *self._requests, *self._questions]
            self._taken, self._requests, self._questions = [], [], []
        for _, receipt in waiting:
            receipt.set_exception(_closed())

    def take_batch(self, until_s: float | None) -> list[AnyEvent]:
        """All that is there, by `at_s`, as soon as there is anything to do.

        Empty at `until_s`, when the head is consulted, and after LOOK_EVERY_S.
        """
        with self._changed:
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
            self.replacement, self._replacement = self._replacement or self.replacement, None
            self._taken += self._requests
            self._requests = []
            self._is_urgent = False
        return sorted(fold_reports(taken), key=lambda event: event.at_s)

    def _take_due(self) -> list[AnyEvent]:
        """All; but results of trial runs stay until they are due where what is urgent needs no plan."""
        events, self._events = self._events, []
        is_due = self._replacement is not None or (
            self._due_s is not None and self._clock.now_s() >= self._due_s
        )
        is_due |= self._replacement is not None or not self._is_urgent
        if is_due or not all(isinstance(event, PLANLESS) for event in events):
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

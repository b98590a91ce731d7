"""What is news of a job, and for which addresses; each is told it once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

import msgspec

from swell.live.turns import TurnNews
from swell.live.webhooks.message import WebhookMessage, body_of, message_id
from swell.live.webhooks.sender import Sender, WebhookCounts
from swell.model.calendar import Calendar
from swell.model.deadline_state import DeadlineState, deadline_state
from swell.model.view import JobView
from swell.model.webhook import Webhook, WebhookEvent
from swell.store.journal import SqlJournal

#: Time of the latest turn, and wanted open jobs with their ends by the plan; see `ViewBoard.open_jobs`.
OpenJobs = Callable[[Callable[[JobView], bool]], tuple[float, list[tuple[JobView, float | None]]]]
EVENTS = {DeadlineState.AT_RISK: WebhookEvent.AT_RISK, DeadlineState.LATE: WebhookEvent.MISSED}


class Webhooks:
    """Finds news in turns, and in open jobs every few seconds. A message is in the journal before it is sent.

    A message that is found again has the same id, and the journal takes it once.

    Args:
        everywhere: what is told of all jobs.
        of_job: that of a job which has one; may take a millisecond, and never raises.
    """

    def __init__(
        self,
        journal: SqlJournal,
        key: bytes,
        everywhere: Sequence[Webhook],
        of_job: Callable[[str], Webhook | None],
    ) -> None:
        self._journal, self._everywhere, self._of_job = journal, everywhere, of_job
        self._calendar: Callable[[], Calendar] = Calendar
        self._open_jobs: OpenJobs = lambda is_wanted: (0.0, [])
        self._now_s: Callable[[], float] = lambda: 0.0
        self._sender = Sender(journal, key, lambda: self._now_s(), self.look)
        self._told = set[tuple[str, str]]()  #: ids of open jobs, each with what the latest look has found

    def begin(
        self, open_jobs: OpenJobs, now_s: Callable[[], float], calendar: Callable[[], Calendar]
    ) -> None:
        """Where the board and the clocks are."""
        self._open_jobs, self._now_s, self._calendar = open_jobs, now_s, calendar

    def start(self) -> None:
        """Send, from what an earlier daemon has left on."""
        self._sender.start()

    def stop(self) -> None:
        """What is not delivered waits for the next daemon."""
        self._sender.stop()

    def send(self, messages: Iterable[WebhookMessage]) -> None:
        """Deliver these, which the journal has."""
        for message in messages:
            self._sender.add(message)

    @property
    def counts(self) -> WebhookCounts:
        """What was delivered. May be called by any thread."""
        return self._sender.counts

    def of_ends(self, news: TurnNews) -> list[WebhookMessage]:
        """What a turn brings: news of jobs that have ended."""
        calendar, found = news.calendar, list[WebhookMessage]()
        for view in news.ended:
            at_s = news.now_s if view.finished_s is None else view.finished_s
            found += self._messages(WebhookEvent.FINISHED, view, "finished", calendar, at_s)
            if view.kept is False:
                key = _key(WebhookEvent.MISSED, view, calendar)
                found += self._messages(WebhookEvent.MISSED, view, key, calendar, at_s)
        return found

    def look(self) -> None:
        """Tell of open jobs whose deadlines are at risk, or were missed. Belongs to the sender's thread."""
        now_s, calendar = self._now_s(), self._calendar()
        found, messages = set[tuple[str, str]](), list[WebhookMessage]()
        for view, expected_s in self._open_jobs(self._may_have_news)[1]:
            event = EVENTS.get(deadline_state(view, now_s, expected_s))
            if event is None:
                continue
            key = _key(event, view, calendar)
            found.add((view.id, key))
            if (view.id, key) not in self._told:
                expected = msgspec.structs.replace(view, estimated_finish_s=expected_s)
                messages += self._messages(event, expected, key, calendar, now_s)
        if messages:
            new = self._journal.put_deliveries([message.delivery for message in messages])
            self.send(message for message in messages if message.id in new)
        self._told = found

    def _may_have_news(self, view: JobView) -> bool:
        """An open job with a deadline of which somebody is to be told."""
        return view.deadline_s is not None and (view.webhook or bool(self._everywhere))

    def _messages(
        self, event: WebhookEvent, view: JobView, key: str, calendar: Calendar, at_s: float
    ) -> Iterable[WebhookMessage]:
        for url, is_of_job in self._urls(view, event).items():
            yield WebhookMessage(
                id=message_id(view.id, key, url),
                url=url,
                event=event,
                job_id=view.id,
                body=body_of(event, view, calendar, at_s),
                created_s=time.time(),
                is_of_job=is_of_job,
            )

    def _urls(self, view: JobView, event: WebhookEvent) -> dict[str, bool]:
        """Each with whether the job's owner has named it."""
        urls = {hook.url: False for hook in self._everywhere if event in hook.on}
        if view.webhook and (own := self._of_job(view.id)) and event in own.on:
            urls[own.url] = True
        return urls


def _key(event: WebhookEvent, view: JobView, calendar: Calendar) -> str:
    """Names one time of day: another deadline is news again, a step of the machine's clock is not."""
    return f"{event} {round((view.deadline_s or 0.0) + calendar.offset_s)}"

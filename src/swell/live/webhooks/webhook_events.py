"""Events that are news for an address: found in turns, and in a look at open jobs now and then."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import msgspec

from swell.live.turn_feed import Turn
from swell.live.webhooks.message import WebhookMessage, body_of, message_id
from swell.live.webhooks.spool import WebhookProgress
from swell.model.calendar import Calendar
from swell.model.deadline_state import DeadlineState, deadline_state
from swell.model.view import JobView
from swell.model.webhook import Webhook, WebhookEvent

#: Between two looks at open jobs.
LOOK_EVERY_S = 5.0

#: Time of the latest turn, and wanted open jobs with their ends by the plan; see `ViewBoard.open_jobs`.
OpenJobs = Callable[[Callable[[JobView], bool]], tuple[float, list[tuple[JobView, float | None]]]]
EVENTS = {DeadlineState.AT_RISK: WebhookEvent.AT_RISK, DeadlineState.LATE: WebhookEvent.MISSED}


@dataclass(frozen=True, slots=True)
class WebhookChoice:
    """Choice of what is told to which address."""

    everywhere: Sequence[Webhook]  #: of all jobs
    of_job: Callable[
        [str], Webhook | None
    ]  #: of a job that has one; may take a millisecond, and never raises

    def may_have_news(self, view: JobView) -> bool:
        """An open job with a deadline of which somebody is to be told."""
        return view.deadline_s is not None and (view.webhook or bool(self.everywhere))

    def urls(self, view: JobView, event: WebhookEvent) -> dict[str, bool]:
        """Each with whether the job's owner has named it."""
        urls = {hook.url: False for hook in self.everywhere if event in hook.on}
        if view.webhook and (own := self.of_job(view.id)) and event in own.on:
            urls[own.url] = True
        return urls


class WebhookEvents:
    """Events of a webhook, each told once: ends, deadlines at risk, deadlines that were missed."""

    def __init__(self, choice: WebhookChoice, wall_s: Callable[[], float]) -> None:
        self._choice, self._wall_s = choice, wall_s
        self._told: dict[str, set[str]] = {}  #: open job -> keys
        self._looked_s: float | None = None

    def go_on(self, progress: WebhookProgress) -> None:
        """Continue from what an earlier daemon has told already."""
        self._told = {job_id: set(keys) for job_id, keys in progress.told.items()}

    def progress(self, seq: int) -> WebhookProgress:
        """Return what has been told up to this batch, to be kept for a later daemon."""
        return WebhookProgress(
            seq=seq, told={job_id: tuple(sorted(keys)) for job_id, keys in self._told.items()}
        )

    def of_ends(self, turn: Turn) -> list[WebhookMessage]:
        """News of jobs that have ended in the turn."""
        news = turn.news
        return [message for view in news.ended for message in self._of_end(view, news.calendar, news.now_s)]

    def _of_end(self, view: JobView, calendar: Calendar, now_s: float) -> Iterable[WebhookMessage]:
        told, at_s = self._told.pop(view.id, set()), now_s if view.finished_s is None else view.finished_s
        yield from self._messages(WebhookEvent.FINISHED, view, "finished", calendar, at_s)
        key = _key(WebhookEvent.MISSED, view, calendar)
        if view.kept is False and key not in told:
            yield from self._messages(WebhookEvent.MISSED, view, key, calendar, at_s)

    def of_open_jobs(self, now_s: float, open_jobs: OpenJobs, calendar: Calendar) -> list[WebhookMessage]:
        """News of deadlines that somebody is to be told of; none if the last look was less than
        `LOOK_EVERY_S` ago.
        """
        if self._looked_s is not None and now_s < self._looked_s + LOOK_EVERY_S:
            return []
        self._looked_s = now_s
        return [
            message
            for view, expected_s in open_jobs(self._choice.may_have_news)[1]
            if (event := EVENTS.get(deadline_state(view, now_s, expected_s)))
            for message in self._of_deadline(event, _expected(view, expected_s), calendar, now_s)
        ]

    def _of_deadline(
        self, event: WebhookEvent, view: JobView, calendar: Calendar, now_s: float
    ) -> Sequence[WebhookMessage]:
        key = _key(event, view, calendar)
        if key in self._told.get(view.id, ()):
            return ()
        messages = list(self._messages(event, view, key, calendar, now_s))
        self._told.setdefault(view.id, set()).add(key)
        return messages

    def _messages(
        self, event: WebhookEvent, view: JobView, key: str, calendar: Calendar, at_s: float
    ) -> Iterable[WebhookMessage]:
        for url, is_of_job in self._choice.urls(view, event).items():
            yield WebhookMessage(
                id=message_id(view.id, key, url),
                url=url,
                event=event,
                job_id=view.id,
                body=body_of(event, view, calendar, at_s),
                created_s=self._wall_s(),
                is_of_job=is_of_job,
            )


def _expected(view: JobView, expected_s: float | None) -> JobView:
    return msgspec.structs.replace(view, estimated_finish_s=expected_s)


def _key(event: WebhookEvent, view: JobView, calendar: Calendar) -> str:
    """Names one time of day: another deadline is news again, a step of the machine's clock is not."""
    return f"{event} {round((view.deadline_s or 0.0) + calendar.offset_s)}"

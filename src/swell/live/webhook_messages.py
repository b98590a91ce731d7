"""Messages to addresses: JSON for programs, and a few lines of text for services that people read."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import NamedTuple

import msgspec

from swell.live.clock import shown_job
from swell.model.calendar import Calendar
from swell.model.coding import encode
from swell.model.job import Phase
from swell.model.quantities import told_devices, told_jobs
from swell.model.view import JobView
from swell.model.webhook import Webhook, WebhookEvent, place_of
from swell.store.journal import SavedMessage

#: What a message tells of a job as it stood, in this order; times are seconds since 1970.
TOLD = (
    *("id", "name", "tenant", "class", "phase", "submitted_s", "deadline_s", "is_promised", "kept"),
    *("expected_finish_s", "finished_s", "steps", "total_steps", "reason"),
)
#: Fields of its view with other names.
FIELDS = {"class": "job_class", "expected_finish_s": "estimated_finish_s"}
#: Characters of a reason: it may be the end of a traceback.
MAX_REASON = 500
#: Jobs of a group that are named.
MOST_NAMED = 5
FAILED = (Phase.FAILED, Phase.TIMED_OUT)
HAPPENED = {
    WebhookEvent.AT_RISK: "is expected to end after its deadline",
    WebhookEvent.MISSED: "has missed its deadline",
    WebhookEvent.STALLED: "makes no steps",
    WebhookEvent.IDLE: "holds devices that it does not use",
    WebhookEvent.STARTED: "has started",
    WebhookEvent.SESSION_ENDING: "is about to end",
    WebhookEvent.NODE_LOST: "was lost",
    WebhookEvent.NODE_ILL: "is ill and gets no more work",
    WebhookEvent.NODE_SLOW: "has a slow device, which jobs get last",
}
ENDED = {
    Phase.SUCCEEDED: "has finished",
    Phase.ENDED_EARLY: "ended early",
    Phase.FAILED: "has failed",
    Phase.TIMED_OUT: "was ended at its limit of time",
    Phase.CANCELLED: "was cancelled",
    Phase.REJECTED: "was refused",
}


class NodeNews(NamedTuple):
    """What has happened to a node."""

    event: WebhookEvent
    name: str
    at_s: float  #: head time
    cause: str


class WebhookMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A request that is to be made, or a text that a service is to get."""

    id: str  #: the same if what is told is told again
    url: str
    event: WebhookEvent
    job_id: str  #: empty: it is about a node
    body: str
    created_s: float  #: seconds since 1970
    is_of_job: bool = False  #: the job's owner has named the address
    is_of_user: bool = False  #: likewise, and that is not the owner of the platform
    is_service: bool = False  #: `body` is a text, of which the first line is the title

    @property
    def delivery(self) -> SavedMessage:
        """What the journal keeps of it."""
        return SavedMessage(self.id, self.job_id, msgspec.json.encode(self).decode())

    @property
    def place(self) -> str:
        """What may be shown of its address."""
        return place_of(self.url, self.is_service)

    def __str__(self) -> str:
        return f"{self.event} of {f'job {self.job_id}' if self.job_id else 'a node'} to {self.place}"


def message_id(about: str, key: str, url: str) -> str:
    """Id of the message that tells this address the news `key` of a job; the same after a restart."""
    return "msg_" + sha256("\n".join((about, key, url)).encode()).hexdigest()[:32]


def message_to(
    hook: Webhook,
    event: WebhookEvent,
    body: str,
    named: tuple[str, str],
    view: JobView | None = None,
    is_own: bool = False,
) -> WebhookMessage:
    """The message for an address.

    Args:
        named: what is told of, and what of it; see `message_id`.
        view: a job that is told of; None: a node is.
        is_own: the job's owner has named the address.
    """
    return WebhookMessage(
        id=message_id(*named, hook.url),
        url=hook.url,
        event=event,
        job_id=view.id if view else "",
        body=body,
        created_s=time.time(),
        is_of_job=is_own,
        is_of_user=is_own and view is not None and view.user != "",
        is_service=hook.is_service,
    )


# ---------------------------------------------------------------- for programs
def json_of_job(event: WebhookEvent, view: JobView, calendar: Calendar, at_s: float) -> str:
    """What a program is told of a job.

    Args:
        view: with head times.
        at_s: head time of what is told.
    """
    shown = shown_job(view, calendar)
    data = {name: getattr(shown, FIELDS.get(name, name)) for name in TOLD}
    data["reason"] = view.reason[:MAX_REASON]
    return _json(f"job.{event}", calendar.time_of(at_s), data)


def json_of_node(news: NodeNews, calendar: Calendar) -> str:
    """What a program is told of a node that was lost or is ill."""
    data = {"name": news.name, "cause": news.cause}
    return _json(news.event.replace("_", "."), calendar.time_of(news.at_s), data)


def _json(kind: str, time_s: float, data: Mapping[str, object]) -> str:
    timestamp = datetime.fromtimestamp(time_s, UTC).isoformat(timespec="milliseconds")
    return encode({"type": kind, "timestamp": timestamp, "data": data}).decode()


# ---------------------------------------------------------------- for people
def text_of_job(event: WebhookEvent, view: JobView, calendar: Calendar, at_s: float) -> str:
    """What people are told of a job; arguments as of `json_of_job`."""
    shown = shown_job(view, calendar)
    happened = ENDED.get(view.phase) or HAPPENED[event]
    if view.phase is Phase.SUCCEEDED and view.kept is False:
        happened += ", after its deadline"
    facts: list[str] = [f"{_time(calendar.time_of(at_s))}, job {view.id}"]
    if event is WebhookEvent.STARTED:
        facts.append(f"on {told_devices(len(view.devices))}")
    if view.steps:
        facts.append(
            f"{view.steps} of {view.total_steps} steps" if view.total_steps else f"{view.steps} steps"
        )
    if shown.deadline_s is not None:
        facts.append(f"deadline {_time(shown.deadline_s)}")
    if shown.estimated_finish_s is not None and not view.phase.is_end:
        facts.append(f"expected to end {_time(shown.estimated_finish_s)}")
    why = (view.message if view.phase in FAILED else view.reason).strip().split("\n")[-1]
    if view.phase.is_end:
        facts.append(why[:MAX_REASON])
    links = [f"{name}: {url}" for name, url in view.links.items()]
    return "\n".join([f"{view.name} {happened}", *facts, *links])


def text_of_group(jobs: Sequence[JobView], calendar: Calendar, at_s: float) -> str:
    """What people are told of a group of jobs, of which one has ended at least."""
    ended = Counter(one.phase for one in jobs if one.phase.is_end)
    failed = [one.name for one in jobs if one.phase in FAILED]
    num_open, group = len(jobs) - ended.total(), jobs[0].group
    title = f"{group}: {len(failed)} of {told_jobs(len(jobs))} failed"
    if not num_open:
        title = f"{group}: {'its only job has' if len(jobs) == 1 else f'all {len(jobs)} jobs have'} ended"
    sums = [f"{num} {phase}" for phase, num in ended.items()] + [f"{num_open} open"] * bool(num_open)
    lines = [title, _time(calendar.time_of(at_s)), ", ".join(sums)]
    if num_late := sum(one.kept is False for one in jobs):
        lines.append(f"{told_jobs(num_late)} missed the deadline")
    if failed:
        more = f" and {len(failed) - MOST_NAMED} more" if len(failed) > MOST_NAMED else ""
        lines.append(f"failed: {', '.join(failed[:MOST_NAMED])}{more}")
    return "\n".join(lines)


def text_of_node(news: NodeNews, calendar: Calendar) -> str:
    """What people are told of a node that was lost or is ill."""
    title = f"node {news.name} {HAPPENED[news.event]}"
    return f"{title}\n{_time(calendar.time_of(news.at_s))}\n{news.cause[:MAX_REASON]}"


def _time(time_s: float) -> str:
    """In the time zone of the platform's machine."""
    return datetime.fromtimestamp(time_s).astimezone().strftime("%Y-%m-%d %H:%M")


def latest_run(jobs: Sequence[JobView]) -> list[JobView]:
    """Those of a group that belong to its latest use: its name may have been used for jobs before.

    Another use begins with a job that is submitted after all jobs before it have ended.
    """
    found, last_s = list[JobView](), 0.0
    for view in sorted(jobs, key=lambda one: one.submitted_s):
        if view.submitted_s > last_s:
            found = []
        found.append(view)
        last_s = max(last_s, view.finished_s if view.finished_s is not None else float("inf"))
    return found

"""What an address is told, as JSON."""

from __future__ import annotations

from datetime import UTC, datetime
from hashlib import sha256

import msgspec

from swell.live.calendar_times import shown_job
from swell.model.calendar import Calendar
from swell.model.coding import encode
from swell.model.job import JobClass, Phase
from swell.model.view import JobView
from swell.model.webhook import WebhookEvent
from swell.store.journal import Delivery

#: Characters of a reason: it may be the end of a traceback.
MAX_REASON = 500


class JobNews(msgspec.Struct, frozen=True, kw_only=True):
    """A job as it stood. Times are seconds since 1970."""

    id: str
    name: str
    tenant: str
    job_class: JobClass = msgspec.field(name="class")
    phase: Phase
    submitted_s: float
    deadline_s: float | None
    is_promised: bool
    kept: bool | None  #: as in the control API
    expected_finish_s: float | None
    finished_s: float | None
    steps: int
    total_steps: int | None
    reason: str


class WebhookBody(msgspec.Struct, frozen=True, kw_only=True):
    """The body of a request."""

    type: str  #: `job.finished`, ...
    timestamp: str  #: of what is told, RFC 3339
    data: JobNews


class WebhookMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A request that is to be made."""

    id: str  #: the same if what is told is told again
    url: str
    event: WebhookEvent
    job_id: str
    body: str
    created_s: float  #: seconds since 1970
    is_of_job: bool = False  #: the job's owner has named the address

    @property
    def delivery(self) -> Delivery:
        """What the journal keeps of it."""
        return Delivery(self.id, self.job_id, msgspec.json.encode(self).decode())


def message_id(job_id: str, key: str, url: str) -> str:
    """Id of the message that tells this address the job's news `key`; the same after a restart."""
    return "msg_" + sha256("\n".join((job_id, key, url)).encode()).hexdigest()[:32]


def body_of(event: WebhookEvent, view: JobView, calendar: Calendar, at_s: float) -> str:
    """
    Args:
        view: with head times.
        at_s: head time of what is told.
    """
    shown = shown_job(view, calendar)
    news = JobNews(
        id=view.id,
        name=view.name,
        tenant=view.tenant,
        job_class=view.job_class,
        phase=view.phase,
        submitted_s=shown.submitted_s,
        deadline_s=shown.deadline_s,
        is_promised=view.is_promised,
        kept=view.kept,
        expected_finish_s=shown.estimated_finish_s,
        finished_s=shown.finished_s,
        steps=view.steps,
        total_steps=view.total_steps,
        reason=view.reason[:MAX_REASON],
    )
    told_s = datetime.fromtimestamp(calendar.time_of(at_s), UTC)
    return encode(
        WebhookBody(type=f"job.{event}", timestamp=told_s.isoformat(timespec="milliseconds"), data=news)
    ).decode()

"""Webhooks: addresses are told news of jobs, each once, by a thread with a loop of its own.

Requests are signed as standardwebhooks.com has it, so that a receiver tells our messages from others'.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import logging
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.request import getproxies

import msgspec

from swell import __version__
from swell.live.board import TurnResult
from swell.live.clock import shown_job
from swell.model.calendar import Calendar
from swell.model.coding import encode
from swell.model.deadline_state import DeadlineState, deadline_state
from swell.model.quantities import span
from swell.model.retry import retry_pause_s
from swell.model.view import JobView, Story
from swell.model.webhook import Webhook, WebhookEvent, place_of
from swell.store.errors import StateError
from swell.store.journal import SavedMessage, SqlJournal

if TYPE_CHECKING:
    import httpx

#: Before a secret, so that it is known for one.
PREFIX = "whsec_"
NUM_SECRET_BYTES = 32

#: An address that does not answer so soon has not taken the message.
ANSWER_WITHIN_S = 10.0
#: Requests at a time.
AT_ONCE = 8
#: Between two tries of one address.
FIRST_WAIT_S, LONGEST_WAIT_S = 5.0, 3600.0
#: A message is given up after so long.
KEPT_S = 3 * 86400.0
#: The address wants no more of them.
GONE_STATUS = 410
GONE = f"the address answered {GONE_STATUS}"
PRIVATE = "it is of this machine or of a private network, which the owner of the platform alone may name"
#: Messages that wait at most: of one address, and in all.
MOST_OF_ADDRESS = 1000
MOST = 10_000

#: Between two looks at open jobs.
LOOK_EVERY_S = 5.0
EVENTS = {DeadlineState.AT_RISK: WebhookEvent.AT_RISK, DeadlineState.LATE: WebhookEvent.MISSED}
#: Of the lines in a job's story that tell of its messages.
CODE = "webhook"

#: What a message tells of a job as it stood, in this order; times are seconds since 1970.
TOLD = (
    *("id", "name", "tenant", "class", "phase", "submitted_s", "deadline_s", "is_promised", "kept"),
    *("expected_finish_s", "finished_s", "steps", "total_steps", "reason"),
)
#: Fields of its view with other names.
FIELDS = {"class": "job_class", "expected_finish_s": "estimated_finish_s"}
#: Characters of a reason: it may be the end of a traceback.
MAX_REASON = 500

#: Wanted open jobs with their ends by the plan; see `ViewBoard.open_jobs`.
OpenJobs = Callable[[Callable[[JobView], bool]], list[tuple[JobView, float | None]]]

log = logging.getLogger("swell.webhooks")


# ---------------------------------------------------------------- secrets
def key_of(secret: str) -> bytes:
    """What a secret stands for. Raises ValueError."""
    key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    if not secret.startswith(PREFIX) or len(key) < NUM_SECRET_BYTES:
        raise ValueError(f"a secret is {PREFIX} and {NUM_SECRET_BYTES} bytes or more in base64")
    return key


def signature(key: bytes, message_id: str, timestamp_s: int, body: bytes) -> str:
    """HMAC-SHA256 over `ID.TIMESTAMP.BODY`, in base64, with the number of this scheme."""
    signed = b".".join((message_id.encode(), str(timestamp_s).encode(), body))
    return "v1," + base64.b64encode(hmac.digest(key, signed, sha256)).decode()


# ---------------------------------------------------------------- messages
class WebhookMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A request that is to be made."""

    id: str  #: the same if what is told is told again
    url: str
    event: WebhookEvent
    job_id: str
    body: str
    created_s: float  #: seconds since 1970
    is_of_job: bool = False  #: the job's owner has named the address
    is_of_user: bool = False  #: likewise, and that is not the owner of the platform

    @property
    def delivery(self) -> SavedMessage:
        """What the journal keeps of it."""
        return SavedMessage(self.id, self.job_id, msgspec.json.encode(self).decode())

    def __str__(self) -> str:
        return f"{self.event} of job {self.job_id} to {place_of(self.url)}"


def message_id(job_id: str, key: str, url: str) -> str:
    """Id of the message that tells this address the job's news `key`; the same after a restart."""
    return "msg_" + sha256("\n".join((job_id, key, url)).encode()).hexdigest()[:32]


def _body(event: WebhookEvent, view: JobView, calendar: Calendar, at_s: float) -> str:
    """What an address is told, as JSON.

    Args:
        view: with head times.
        at_s: head time of what is told.
    """
    shown = shown_job(view, calendar)
    told_s = datetime.fromtimestamp(calendar.time_of(at_s), UTC)
    data = {name: getattr(shown, FIELDS.get(name, name)) for name in TOLD}
    data["reason"] = view.reason[:MAX_REASON]
    timestamp = told_s.isoformat(timespec="milliseconds")
    return encode({"type": f"job.{event}", "timestamp": timestamp, "data": data}).decode()


# ---------------------------------------------------------------- delivery
@dataclass(slots=True)
class WebhookCounts:
    """Messages since the daemon's start, and those that wait now."""

    num_delivered: int = 0
    num_failed: int = 0  #: tries that were not answered with success
    num_dropped: int = 0  #: given up, refused for good, or one too many
    num_waiting: int = 0


@dataclass(slots=True)
class _Waiting:
    """A message that is not delivered yet."""

    message: WebhookMessage
    is_left: bool  #: an earlier daemon has not delivered it
    num_failures: int = 0  #: tries by this daemon
    fault: str = ""  #: of the latest one

    @property
    def delay(self) -> str:
        """Why it was delivered late; empty if it was taken at the first try."""
        causes = ["a restart of the platform"] if self.is_left else []
        if num := self.num_failures:
            causes.append(f"{num} failed {'try' if num == 1 else 'tries'} ({self.fault})")
        return f"delivered after {' and '.join(causes)}" if causes else ""


class Webhooks:
    """Finds news in turns, and in open jobs every few seconds, and delivers messages of them.

    A message is in the journal before it is sent, until its address has taken it. One that is found again has
    the same id, and the journal takes it once. An address has one request at a time. While it fails, all of
    its messages wait; others do not.

    Args:
        everywhere: what is told of all jobs.
        of_job: that of a job which has one; may take a millisecond, and never raises.
        sleep: waits for so many seconds.
    """

    def __init__(
        self,
        journal: SqlJournal,
        key: bytes = b"",
        everywhere: Sequence[Webhook] = (),
        of_job: Callable[[str], Webhook | None] = lambda job_id: None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._journal, self._key, self._everywhere, self._of_job = journal, key, everywhere, of_job
        self._sleep = sleep
        self.begin(lambda is_wanted: [], time.time, Calendar)
        self._told = set[tuple[str, str]]()  #: ids of open jobs, each with what the latest look has found
        self.counts = WebhookCounts()  #: changed by the loop's thread, read by any
        self._waiting: dict[str, deque[_Waiting]] = {}  #: by address; only the loop's thread
        self._ids: set[str] = set()  #: of these
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_over = asyncio.Event()
        self._http: httpx.AsyncClient | None = None  #: made for the first message; most platforms send none
        self._loop: asyncio.AbstractEventLoop | None = None  #: there is one from `start` on

    def begin(
        self, open_jobs: OpenJobs, now_s: Callable[[], float], calendar: Callable[[], Calendar]
    ) -> None:
        """Where the board and the clocks are."""
        self._open_jobs, self._now_s, self._calendar = open_jobs, now_s, calendar

    # ------------------------------------------------------------ any thread
    def start(self) -> None:
        """Also takes up what an earlier daemon has left."""
        left = [msgspec.json.decode(message, type=WebhookMessage) for message in self._journal.deliveries()]
        self._loop = asyncio.new_event_loop()
        main = self._loop.run_until_complete
        self._thread = threading.Thread(target=main, args=(self._main(),), name="swell-webhooks", daemon=True)
        self._thread.start()
        for message in left:
            self._loop.call_soon_threadsafe(self._accept, message, True)

    def add(self, message: WebhookMessage) -> None:
        """Deliver it; it is in the journal, and so `start` finds it there."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._accept, message, False)

    def stop(self) -> None:
        """What is not delivered waits for the next daemon."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._is_over.set)
            self._thread.join()
            self._loop.close()

    # ------------------------------------------------------------ the loop's thread
    async def _main(self) -> None:
        # httpx logs whole addresses at this level, and they may hold secrets.
        logging.getLogger("httpx").setLevel(logging.WARNING)
        self._slots = asyncio.Semaphore(AT_ONCE)
        while not self._is_over.is_set():
            try:
                self.look()
            except Exception:  # what cannot be told now is told later
                log.exception("deadlines of open jobs are not told to webhooks for %g s", LOOK_EVERY_S)
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_EVERY_S):
                    await self._is_over.wait()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._http is not None:
            await self._http.aclose()

    def _accept(self, message: WebhookMessage, is_left: bool) -> None:
        if message.id in self._ids:
            return
        waiting = self._waiting.get(message.url, deque())
        if len(waiting) >= MOST_OF_ADDRESS or len(self._ids) >= MOST:
            self._drop(message, f"{len(waiting)} messages wait for this address, {len(self._ids)} in all")
            return
        self._ids.add(message.id)
        waiting.append(_Waiting(message, is_left))
        self.counts.num_waiting += 1
        if message.url not in self._waiting:
            self._waiting[message.url] = waiting
            task = asyncio.get_running_loop().create_task(self._serve(message.url, waiting))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _serve(self, url: str, waiting: deque[_Waiting]) -> None:
        """Until no message for this address waits. One that fails goes to the end of the row."""
        num_failures = 0
        try:
            while waiting:
                first = waiting[0]
                async with self._slots:
                    fault = await self._fault_of(first.message)
                if fault not in ("", GONE, PRIVATE) and time.time() <= first.message.created_s + KEPT_S:
                    num_failures += 1
                    first.num_failures, first.fault = first.num_failures + 1, fault
                    self.counts.num_failed += 1
                    waiting.rotate(-1)
                    pause_s = retry_pause_s(num_failures, FIRST_WAIT_S, LONGEST_WAIT_S)
                    log.warning("%s was not delivered (%s); next try in %g s", first.message, fault, pause_s)
                    await self._sleep(pause_s)
                    continue
                if fault:
                    self._drop(
                        first.message, fault if fault in (GONE, PRIVATE) else f"{fault}, after {span(KEPT_S)}"
                    )
                else:
                    num_failures = 0
                    self.counts.num_delivered += 1
                    log.info("delivered %s", first.message)
                    self._end(first.message, first.delay)
                self._ids.discard(waiting.popleft().message.id)
                self.counts.num_waiting -= 1
        finally:
            del self._waiting[url]

    async def _fault_of(self, message: WebhookMessage) -> str:
        """Make the request; why it was not taken, without the address; empty: it was."""
        import httpx  # which a platform without webhooks never needs

        body, timestamp_s = message.body.encode(), int(time.time())
        headers = {
            "content-type": "application/json",
            "user-agent": f"swell/{__version__}",
            "webhook-id": message.id,
            "webhook-timestamp": str(timestamp_s),
            "webhook-signature": signature(self._key, message.id, timestamp_s, body),
        }
        if self._http is None:
            self._http = _new_client()
        is_free = not message.is_of_user or getproxies()  # a proxy has rules of its own
        extensions = {} if is_free else {"trace": _refuse_private}
        try:
            async with (
                asyncio.timeout(ANSWER_WITHIN_S),
                self._http.stream(
                    "POST", message.url, content=body, headers=headers, extensions=extensions
                ) as answer,
            ):
                return "" if answer.is_success else _told_of(answer.status_code)
        except PermissionError:
            return PRIVATE
        except TimeoutError:
            return f"no answer within {span(ANSWER_WITHIN_S)}"
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
            return type(error).__name__

    def _drop(self, message: WebhookMessage, why: str) -> None:
        self.counts.num_dropped += 1
        log.warning("%s is not sent any more: %s", message, why)
        self._end(message, f"given up: {why}")

    def _end(self, message: WebhookMessage, what: str) -> None:
        """It was delivered, or is given up; its job's story tells what became of it, if that is not empty."""
        story = None
        if what:
            # What the platform's operator has named is no concern of the job's owner.
            url = place_of(message.url) if message.is_of_job else "an address of webhooks.yaml"
            text = f"{message.event}, to {url}: {what}"
            story = Story(at_s=self._now_s(), code=CODE, text=text)
        try:
            self._journal.end_delivery(message.id, message.job_id, story)
        except StateError as error:  # also one that is damaged: other messages are not in that part of it
            log.warning("%s stays on disk, and is sent again after a restart: %s", message, error)

    # ------------------------------------------------------------ news
    def of_ends(self, news: TurnResult) -> list[WebhookMessage]:
        """What a turn brings: news of jobs that have ended."""
        calendar, found = news.calendar, list[WebhookMessage]()
        for view in news.ended:
            at_s = news.now_s if view.finished_s is None else view.finished_s
            found += self._messages(WebhookEvent.FINISHED, view, "finished", calendar, at_s)
            if view.kept is False:
                key = _key(WebhookEvent.MISSED, view.deadline_s, calendar)
                found += self._messages(WebhookEvent.MISSED, view, key, calendar, at_s)
        return found

    def look(self) -> None:
        """Tell of open jobs that make no steps, and of those whose deadlines are at risk, or were missed."""
        now_s, calendar = self._now_s(), self._calendar()
        found, messages = set[tuple[str, str]](), list[WebhookMessage]()
        for view, expected_s in self._open_jobs(self._may_have_news):
            news = {EVENTS.get(deadline_state(view, now_s, expected_s)): view.deadline_s}
            news |= {WebhookEvent.STALLED: view.stalled_since_s}
            for event, at_s in news.items():
                if event is None or at_s is None:
                    continue
                key = _key(event, at_s, calendar)
                found.add((view.id, key))
                if (view.id, key) not in self._told:
                    expected = msgspec.structs.replace(view, estimated_finish_s=expected_s)
                    messages += self._messages(event, expected, key, calendar, now_s)
        if messages:
            new = self._journal.put_deliveries([message.delivery for message in messages])
            for message in messages:
                if message.id in new:
                    self.add(message)
        self._told = found

    def _may_have_news(self, view: JobView) -> bool:
        """An open job with a deadline, or without steps, of which an address is to be told."""
        has_news = view.deadline_s is not None or view.stalled_since_s is not None
        return has_news and (view.webhook or bool(self._everywhere))

    def _messages(
        self, event: WebhookEvent, view: JobView, key: str, calendar: Calendar, at_s: float
    ) -> Iterator[WebhookMessage]:
        urls = {hook.url: False for hook in self._everywhere if event in hook.on}
        if view.webhook and (own := self._of_job(view.id)) and event in own.on:
            urls[own.url] = True
        for url, is_of_job in urls.items():
            yield WebhookMessage(
                id=message_id(view.id, key, url),
                url=url,
                event=event,
                job_id=view.id,
                body=_body(event, view, calendar, at_s),
                created_s=time.time(),
                is_of_job=is_of_job,
                is_of_user=is_of_job and view.user != "",
            )


async def _refuse_private(step: str, facts: dict[str, Any]) -> None:
    """Raises PermissionError before anything is sent, by the address that was really connected to."""
    if step == "connection.connect_tcp.complete":
        line = facts["return_value"]
        if not ip_address(line.get_extra_info("server_addr")[0]).is_global:
            await line.aclose()
            raise PermissionError


def _new_client() -> httpx.AsyncClient:
    """Return a client that uses the environment's proxies and certificates, or neither if one is invalid."""
    import httpx

    new = partial(httpx.AsyncClient, follow_redirects=False, timeout=ANSWER_WITHIN_S)
    try:
        return new()
    except (ImportError, ValueError, OSError, httpx.InvalidURL) as error:  # its text may hold a password
        log.warning(
            "a proxy (ALL_PROXY, HTTPS_PROXY, HTTP_PROXY) or certificates (SSL_CERT_FILE, SSL_CERT_DIR) of "
            "the environment cannot be used (%s), and requests go without: name a proxy as "
            "http://HOST:PORT, and files that are there, and start the platform again",
            type(error).__name__,
        )
        return new(trust_env=False)


def _told_of(status: int) -> str:
    if status == GONE_STATUS:
        return GONE
    return f"status {status}" + (", and redirects are not followed" if 300 <= status < 400 else "")


def _key(event: WebhookEvent, at_s: float | None, calendar: Calendar) -> str:
    """Names one time of day: another deadline is news again, a step of the machine's clock is not."""
    return f"{event} {round((at_s or 0.0) + calendar.offset_s)}"

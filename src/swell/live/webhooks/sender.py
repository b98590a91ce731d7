"""Delivers messages, each until its address has taken it: a thread with a loop of its own."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec

from swell import __version__
from swell.live.webhooks.message import WebhookMessage
from swell.live.webhooks.signature import signature
from swell.model.errors import Unwritable
from swell.model.lengths import span
from swell.model.view import Story
from swell.model.webhook import place_of
from swell.store.journal import SqlJournal

if TYPE_CHECKING:
    import httpx

#: An address that does not answer so soon has not taken the message.
ANSWER_WITHIN_S = 10.0
#: Requests at a time.
AT_ONCE = 8
#: Between two tries of one address.
FIRST_WAIT_S, LONGEST_WAIT_S = 5.0, 3600.0
#: A message is given up after so long.
KEPT_S = 3 * 86400.0
#: The address wants no more of them.
GONE = 410

#: Messages that wait at most: of one address, and in all.
MOST_OF_ADDRESS = 1000
MOST = 10_000
#: Between two looks at open jobs.
LOOK_EVERY_S = 5.0
#: Of the lines in a job's story that tell of its messages.
CODE = "webhook"

log = logging.getLogger("swell.webhooks")


@dataclass(frozen=True, slots=True)
class WebhookCounts:
    """Messages since the daemon's start, and those that wait now."""

    num_delivered: int = 0
    num_failed: int = 0  #: tries that were not answered with success
    num_dropped: int = 0  #: given up, refused for good, or one too many
    num_waiting: int = 0


def wait_s(num_failures: int) -> float:
    """Until the next try, after so many in a row that have failed."""
    return float(min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** min(num_failures - 1, 32)))


class Sender:
    """An address has one request at a time. While it fails, all of its messages wait; others do not.

    Args:
        now_s: head time.
        look: finds news of open jobs, and adds messages of them; called every few seconds.
        sleep: waits for so many seconds.
    """

    def __init__(
        self,
        journal: SqlJournal,
        key: bytes,
        now_s: Callable[[], float],
        look: Callable[[], None],
        wall_s: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._journal, self._key, self._wall_s = journal, key, wall_s
        self._now_s, self._look, self._sleep = now_s, look, sleep
        self._counts, self._lock = WebhookCounts(), threading.Lock()
        self._waiting: dict[str, deque[WebhookMessage]] = {}  #: by address; only the loop's thread
        self._ids: set[str] = set()  #: of these
        self._left: set[str] = set()  #: of messages that an earlier daemon has not delivered
        self._failures: Counter[str] = Counter()  #: tries by this daemon, by id
        self._faults: dict[str, str] = {}  #: the latest ones
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._is_over = asyncio.Event()
        self._http: httpx.AsyncClient | None = None  #: made for the first message; most platforms send none
        self._thread = threading.Thread(target=self._run, name="swell-webhooks", daemon=True)

    # ------------------------------------------------------------ any thread
    def start(self) -> None:
        """Also takes up what an earlier daemon has left."""
        left = [msgspec.json.decode(message, type=WebhookMessage) for message in self._journal.deliveries()]
        self._left = {message.id for message in left}
        self._thread.start()
        for message in left:
            self.add(message)

    def add(self, message: WebhookMessage) -> None:
        """Deliver it; it is in the journal."""
        self._loop.call_soon_threadsafe(self._accept, message)

    def stop(self) -> None:
        """What is not delivered waits for the next daemon."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._is_over.set)
            self._thread.join()
        self._loop.close()

    @property
    def counts(self) -> WebhookCounts:
        with self._lock:
            return self._counts

    # ------------------------------------------------------------ the loop's thread
    def _run(self) -> None:
        self._loop.run_until_complete(self._main())

    async def _main(self) -> None:
        # httpx logs whole addresses at this level, and they may hold secrets.
        logging.getLogger("httpx").setLevel(logging.WARNING)
        self._slots = asyncio.Semaphore(AT_ONCE)
        while not self._is_over.is_set():
            self._try_to_look()
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_EVERY_S):
                    await self._is_over.wait()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._http is not None:
            await self._http.aclose()

    def _try_to_look(self) -> None:
        """What cannot be told now is told later."""
        try:
            self._look()
        except Exception:
            log.exception("deadlines of open jobs are not told to webhooks for %g s", LOOK_EVERY_S)

    def _client(self) -> httpx.AsyncClient:
        if self._http is None:
            self._http = _new_client()
        return self._http

    def _accept(self, message: WebhookMessage) -> None:
        if message.id in self._ids:
            return
        waiting = self._waiting.get(message.url, deque())
        if len(waiting) >= MOST_OF_ADDRESS or len(self._ids) >= MOST:
            self._drop(message, f"{len(waiting)} messages wait for this address, {len(self._ids)} in all")
            return
        self._ids.add(message.id)
        waiting.append(message)
        self._count(num_waiting=1)
        if message.url not in self._waiting:
            self._waiting[message.url] = waiting
            task = self._loop.create_task(self._serve(message.url, waiting))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _serve(self, url: str, waiting: deque[WebhookMessage]) -> None:
        """Until no message for this address waits."""
        try:
            await self._serve_all(url, waiting)
        finally:
            del self._waiting[url]

    async def _serve_all(self, url: str, waiting: deque[WebhookMessage]) -> None:
        """One that fails goes to the end of the row."""
        num_failures = 0
        while waiting:
            message = waiting[0]
            async with self._slots:
                fault = await self._fault_of(message)
            if not fault:
                num_failures = 0
                self._count(num_delivered=1)
                log.info("delivered %s of job %s to %s", message.event, message.job_id, place_of(url))
                self._end(message, self._delay_of(message))
                self._forget(waiting.popleft())
            elif fault == str(GONE) or self._wall_s() > message.created_s + KEPT_S:
                is_gone = fault == str(GONE)
                why = f"the address answered {GONE}" if is_gone else f"{fault}, after {span(KEPT_S)}"
                self._drop(message, why)
                self._forget(waiting.popleft())
            else:
                num_failures += 1
                self._failures[message.id] += 1
                self._faults[message.id] = fault
                self._count(num_failed=1)
                waiting.rotate(-1)
                await self._wait(message, num_failures, fault)

    async def _wait(self, message: WebhookMessage, num_failures: int, fault: str) -> None:
        pause_s = wait_s(num_failures)
        log.warning(
            "%s of job %s was not delivered to %s (%s); next try in %g s",
            message.event,
            message.job_id,
            place_of(message.url),
            fault,
            pause_s,
        )
        await self._sleep(pause_s)

    async def _fault_of(self, message: WebhookMessage) -> str:
        """Make the request; why it was not taken, without the address; empty: it was."""
        import httpx  # which a platform without webhooks never needs

        body, timestamp_s = message.body.encode(), int(self._wall_s())
        headers = {
            "content-type": "application/json",
            "user-agent": f"swell/{__version__}",
            "webhook-id": message.id,
            "webhook-timestamp": str(timestamp_s),
            "webhook-signature": signature(self._key, message.id, timestamp_s, body),
        }
        try:
            async with (
                asyncio.timeout(ANSWER_WITHIN_S),
                self._client().stream("POST", message.url, content=body, headers=headers) as answer,
            ):
                return "" if answer.is_success else _told_of(answer.status_code)
        except TimeoutError:
            return f"no answer within {span(ANSWER_WITHIN_S)}"
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
            return type(error).__name__

    def _forget(self, message: WebhookMessage) -> None:
        self._ids.discard(message.id)
        self._left.discard(message.id)
        self._failures.pop(message.id, None)
        self._faults.pop(message.id, None)
        self._count(num_waiting=-1)

    def _end(self, message: WebhookMessage, what: str) -> None:
        """It was delivered, or is given up; its job's story tells what became of it, if that is not empty."""
        story = None
        if what:
            text = f"{message.event}, to {_shown(message)}: {what}"
            story = Story(at_s=self._now_s(), code=CODE, text=text)
        try:
            self._journal.end_delivery(message.id, message.job_id, story)
        except Unwritable as error:
            log.warning(
                "%s of job %s stays on disk, and is sent again after a restart: %s",
                message.event,
                message.job_id,
                error,
            )

    def _drop(self, message: WebhookMessage, why: str) -> None:
        self._count(num_dropped=1)
        place = place_of(message.url)
        log.warning("%s of job %s is not sent to %s any more: %s", message.event, message.job_id, place, why)
        self._end(message, f"given up: {why}")

    def _delay_of(self, message: WebhookMessage) -> str:
        """Why a message was delivered late; empty if it was taken at the first try."""
        causes = ["a restart of the platform"] if message.id in self._left else []
        if num := self._failures[message.id]:
            causes.append(f"{num} failed {'try' if num == 1 else 'tries'} ({self._faults[message.id]})")
        return f"delivered after {' and '.join(causes)}" if causes else ""

    def _count(self, **changes: int) -> None:
        with self._lock:
            more = {name: getattr(self._counts, name) + change for name, change in changes.items()}
            self._counts = replace(self._counts, **more)


def _new_client() -> httpx.AsyncClient:
    """Return a client that uses the environment's proxies and certificates, or neither if one is invalid."""
    import httpx

    try:
        return _client(has_environment=True)
    except (ImportError, ValueError, OSError, httpx.InvalidURL) as error:  # its text may hold a password
        log.warning(
            "a proxy (ALL_PROXY, HTTPS_PROXY, HTTP_PROXY) or certificates (SSL_CERT_FILE, SSL_CERT_DIR) of "
            "the environment cannot be used (%s), and requests go without: name a proxy as "
            "http://HOST:PORT, and files that are there, and start the platform again",
            type(error).__name__,
        )
        return _client(has_environment=False)


def _client(has_environment: bool) -> httpx.AsyncClient:
    import httpx

    return httpx.AsyncClient(follow_redirects=False, timeout=ANSWER_WITHIN_S, trust_env=has_environment)


def _shown(message: WebhookMessage) -> str:
    """An address that the platform's operator has named is no concern of the job's owner."""
    return place_of(message.url) if message.is_of_job else "an address of webhooks.yaml"


def _told_of(status: int) -> str:
    if status == GONE:
        return str(GONE)
    return f"status {status}" + (", and redirects are not followed" if 300 <= status < 400 else "")

"""Delivers messages, each until its address has taken it: a thread with a loop of its own."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from swell import __version__
from swell.live.webhooks.counts import WebhookCounts
from swell.live.webhooks.message import WebhookMessage
from swell.live.webhooks.signature import signature
from swell.live.webhooks.spool import MOST, MOST_OF_ADDRESS, Spool
from swell.model.lengths import span
from swell.model.webhook import place_of

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

#: Of a message: what became of it, and when, in seconds since 1970.
Note = Callable[[WebhookMessage, str, float], None]

log = logging.getLogger("swell.webhooks")


def wait_s(num_failures: int) -> float:
    """Until the next try, after so many in a row that have failed."""
    return float(min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** min(num_failures - 1, 32)))


class Sender:
    """An address has one request at a time. While it fails, all of its messages wait; others do not.

    Args:
        note: hears of messages that were given up, or were not taken at once.
        sleep: waits for so many seconds.
    """

    def __init__(
        self,
        spool: Spool,
        key: bytes,
        note: Note = lambda message, what, at_s: None,
        wall_s: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._spool, self._key, self._wall_s = spool, key, wall_s
        self._note, self._sleep = note, sleep
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
        left = self._spool.messages()
        self._left = {message.id for message in left}
        self._thread.start()
        for message in left:
            self.add(message)

    def add(self, message: WebhookMessage) -> None:
        """Deliver it; it is in the spool."""
        self._loop.call_soon_threadsafe(self._accept, message)

    def stop(self) -> None:
        """What is not delivered waits in the spool for the next daemon."""
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
        await self._is_over.wait()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._http is not None:
            await self._http.aclose()

    def _client(self) -> httpx.AsyncClient:
        if self._http is None:
            self._http = _new_client()
        return self._http

    def _accept(self, message: WebhookMessage) -> None:
        if message.id in self._ids:
            return
        waiting = self._waiting.get(message.url, deque())
        if len(waiting) >= MOST_OF_ADDRESS or len(self._ids) >= MOST:
            self._remove(message)
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
                self._note_delay(message)
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
        self._remove(message)
        self._ids.discard(message.id)
        self._left.discard(message.id)
        self._failures.pop(message.id, None)
        self._faults.pop(message.id, None)
        self._count(num_waiting=-1)

    def _remove(self, message: WebhookMessage) -> None:
        try:
            self._spool.remove(message)
        except OSError as error:
            log.warning(
                "%s of job %s stays on disk, and is sent again after a restart: %s",
                message.event,
                message.job_id,
                error.strerror,
            )

    def _drop(self, message: WebhookMessage, why: str) -> None:
        self._count(num_dropped=1)
        place = place_of(message.url)
        log.warning("%s of job %s is not sent to %s any more: %s", message.event, message.job_id, place, why)
        self._note(message, f"given up: {why}", self._wall_s())

    def _note_delay(self, message: WebhookMessage) -> None:
        """Note why a message was delivered late, if it was not taken at the first try."""
        causes = ["a restart of the platform"] if message.id in self._left else []
        if num := self._failures[message.id]:
            causes.append(f"{num} failed {'try' if num == 1 else 'tries'} ({self._faults[message.id]})")
        if causes:
            self._note(message, f"delivered after {' and '.join(causes)}", self._wall_s())

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


def _told_of(status: int) -> str:
    if status == GONE:
        return str(GONE)
    return f"status {status}" + (", and redirects are not followed" if 300 <= status < 400 else "")

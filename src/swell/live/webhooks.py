"""Webhooks: addresses are told news of jobs, each once, by a thread with a loop of its own.

Requests are signed as standardwebhooks.com has it, so that a receiver tells our messages from others'. To
services that people read a text goes instead, by Apprise.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import logging
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.request import getproxies

import msgspec

from swell import __version__
from swell.live import service_process
from swell.live.news import NO_ADDRESSES, Addresses, NewsFinder
from swell.live.webhook_messages import WebhookMessage
from swell.model.quantities import span
from swell.model.retry import retry_pause_s
from swell.model.view import Story
from swell.model.webhook import Webhook
from swell.store.errors import StateError
from swell.store.journal import SqlJournal

if TYPE_CHECKING:
    import httpx

#: Before a secret, so that it is known for one.
PREFIX = "whsec_"
NUM_SECRET_BYTES = 32

#: An address that does not answer so soon has not taken the message.
ANSWER_WITHIN_S = 10.0
#: Requests at a time, and texts to services at a time, of which each has a process of its own.
AT_ONCE, SERVICES_AT_ONCE = 8, 2
#: Between two tries of one address.
FIRST_WAIT_S, LONGEST_WAIT_S = 5.0, 3600.0
#: A message is given up after so long.
KEPT_S = 3 * 86400.0
#: The address wants no more of them.
GONE_STATUS = 410
GONE = f"the address answered {GONE_STATUS}"
#: To try again is of no use after these.
FINAL = (GONE, service_process.PRIVATE, service_process.UNKNOWN)
#: Messages that wait at most: of one address, and in all.
MOST_OF_ADDRESS = 1000
MOST = 10_000

#: Between two looks at open jobs.
LOOK_EVERY_S = 5.0
#: Of the lines in a job's story that tell of its messages.
CODE = "webhook"

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
        addresses: of more than one job.
        of_job: see `NewsFinder`.
        sleep: waits for so many seconds.
    """

    def __init__(
        self,
        journal: SqlJournal,
        key: bytes = b"",
        addresses: Addresses = NO_ADDRESSES,
        of_job: Callable[[str], Sequence[Webhook]] = lambda job_id: (),
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._journal, self._key, self._sleep = journal, key, sleep
        self.news = NewsFinder(addresses, of_job)
        self.counts = WebhookCounts()  #: changed by the loop's thread, read by any
        self._waiting: dict[str, deque[_Waiting]] = {}  #: by address; only the loop's thread
        self._ids: set[str] = set()  #: of these
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_over = asyncio.Event()
        self._http: httpx.AsyncClient | None = None  #: made for the first message; most platforms send none
        self._loop: asyncio.AbstractEventLoop | None = None  #: there is one from `start` on

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
        self._slots = {False: asyncio.Semaphore(AT_ONCE), True: asyncio.Semaphore(SERVICES_AT_ONCE)}
        is_last = False
        while not is_last:
            is_last = self._is_over.is_set()
            try:
                self.news.find_news(self.put)
            except Exception:  # what cannot be told now is told later
                log.exception("news of open jobs are not told to webhooks for %g s", LOOK_EVERY_S)
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_EVERY_S):
                    await self._is_over.wait()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._http is not None:
            await self._http.aclose()

    def put(self, messages: Sequence[WebhookMessage]) -> bool:
        """Deliver those that the journal has not had before; whether there are any."""
        if not messages:
            return False
        new = self._journal.put_deliveries([message.delivery for message in messages])
        for message in messages:
            if message.id in new:
                self.add(message)
        return bool(new)

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
                async with self._slots[first.message.is_service]:
                    fault = await self._fault_of(first.message)
                if fault not in ("", *FINAL) and time.time() <= first.message.created_s + KEPT_S:
                    num_failures += 1
                    first.num_failures, first.fault = first.num_failures + 1, fault
                    self.counts.num_failed += 1
                    waiting.rotate(-1)
                    pause_s = retry_pause_s(num_failures, FIRST_WAIT_S, LONGEST_WAIT_S)
                    log.warning("%s was not delivered (%s); next try in %g s", first.message, fault, pause_s)
                    await self._sleep(pause_s)
                    continue
                if fault:
                    self._drop(first.message, fault if fault in FINAL else f"{fault}, after {span(KEPT_S)}")
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
        if message.is_service:
            return await service_process.deliver(message.url, message.body, message.is_of_user)
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
            return service_process.PRIVATE
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
        if what and message.job_id:
            # What the platform's operator has named is no concern of the job's owner.
            url = message.place if message.is_of_job else "an address of webhooks.yaml"
            text = f"{message.event}, to {url}: {what}"
            story = Story(at_s=self.news.source.now_s(), code=CODE, text=text)
        try:
            self._journal.end_delivery(message.id, message.job_id, story)
        except StateError as error:  # also one that is damaged: other messages are not in that part of it
            log.warning("%s stays on disk, and is sent again after a restart: %s", message, error)


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

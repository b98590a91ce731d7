"""Open pages of jobs, as their script is: each follows the events, and fetches what these do not tell."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from urllib.parse import quote

#: As in `job.js`, `job_curves.js` and `job_log.js`, of a job that trains and prints.
PAGE_EVERY_S, METRICS_EVERY_S, LOG_EVERY_S = 15.0, 2.5, 1.5

#: Longer between two requests, each has a connection of its own: the server has room for few that are silent.
KEPT_S = 1.0


@dataclass(slots=True)
class OpenJobPage:
    """One page."""

    port: int
    cookie: str
    job_id: str
    num_bytes: int = 0
    num_requests: int = 0
    offset: int = 0
    since_s: float = 0.0
    is_over: asyncio.Event = field(default_factory=asyncio.Event)

    async def live(self, phase: float) -> None:
        """Args:
        phase: in [0, 1); pages are not loaded at the same moment.
        """
        job, calls = quote(self.job_id), f"/v1/jobs/{quote(self.job_id)}"
        await asyncio.gather(
            self._follow(),
            self._poll(PAGE_EVERY_S, phase, lambda: f"/jobs/{job}"),
            self._poll(METRICS_EVERY_S, phase, lambda: f"{calls}/metrics?since={self.since_s}"),
            self._poll(LOG_EVERY_S, phase, lambda: f"{calls}/logs?whose=leader&offset=0:{self.offset}"),
        )

    async def _follow(self) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(self._request("/page/events"))
        ended = asyncio.ensure_future(self.is_over.wait())
        while not self.is_over.is_set():
            content = asyncio.ensure_future(reader.read(1 << 20))
            await asyncio.wait((content, ended), return_when=asyncio.FIRST_COMPLETED)
            if content.done():
                self.num_bytes += len(content.result())
        writer.close()

    async def _poll(self, every_s: float, phase: float, path) -> None:  # type: ignore[no-untyped-def]
        line: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        wait_s = every_s * phase
        while not await _is_set(self.is_over, wait_s):
            if line is None:
                line = await asyncio.open_connection("127.0.0.1", self.port)
            asked, (reader, writer) = path(), line
            writer.write(self._request(asked))
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            body = await reader.readexactly(length)
            self.num_requests += 1
            self.num_bytes += len(head) + length
            self._take(asked, body)
            wait_s = every_s
            if every_s > KEPT_S:
                writer.close()
                line = None
        if line is not None:
            line[1].close()

    def _take(self, asked: str, body: bytes) -> None:
        if "/logs?" in asked:
            for chunk in json.loads(body):
                self.offset = chunk["next_offset"]
        elif "/metrics?" in asked:
            times_s = [at_s for series in json.loads(body)["series"] for at_s in series["at_s"]]
            self.since_s = max([self.since_s, *times_s])

    def _request(self, path: str) -> bytes:
        lines = (f"GET {path} HTTP/1.1", "Host: 127.0.0.1", f"Cookie: {self.cookie}", "", "")
        return "\r\n".join(lines).encode()


async def _is_set(event: asyncio.Event, within_s: float) -> bool:
    try:
        await asyncio.wait_for(event.wait(), within_s)
    except TimeoutError:
        return False
    return True


def read_job_pages(
    told: Connection, port: int, cookie: str, job_ids: Sequence[str], num_pages: int, seconds: float
) -> None:
    """Be so many pages, of these jobs in turn; tell how much came to all."""
    asyncio.run(_read(told, port, cookie, job_ids, num_pages, seconds))


async def _read(
    told: Connection, port: int, cookie: str, job_ids: Sequence[str], num_pages: int, seconds: float
) -> None:
    pages = [OpenJobPage(port, cookie, job_ids[number % len(job_ids)]) for number in range(num_pages)]
    living = [asyncio.ensure_future(page.live(at / num_pages)) for at, page in enumerate(pages)]
    told.send("connected")
    begun_s = time.monotonic()
    await asyncio.sleep(seconds)
    for page in pages:
        page.is_over.set()
    await asyncio.gather(*living)
    num_requests = sum(page.num_requests for page in pages)
    told.send((num_requests / (time.monotonic() - begun_s), sum(page.num_bytes for page in pages)))

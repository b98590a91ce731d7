"""`GET /page/events`: one open page hears what changes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from swell.api.page.event_ring import EventReader, EventRing

#: A stream that has nothing to say says so, so that both ends know that the other is there.
SILENCE_S = 15.0
#: A browser whose stream broke opens another one after so long.
RETRY_MS = 500
#: And after so long where what it shows could not be read.
AFTER_FAILURE_MS = 10_000

HEADERS = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"x-accel-buffering", b"no")]
STILL_HERE = b": still here\n\n"
#: Longest that a browser may say of where it was.
MAX_ID = 40

log = logging.getLogger("swell.page")


class EventStream:
    """An answer that goes on for as long as the page is open, or until the platform stops."""

    def __init__(self, join: Callable[[EventReader], EventRing], last_id: str) -> None:
        """Args:
        join: finds the ring that the reader is to read, and joins it; raises what the answer is to tell.
        """
        self._join, self._last_id = join, last_id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        reader = EventReader()
        ring = await self._joined(reader)
        leaving = asyncio.ensure_future(_left(receive))
        leaving.add_done_callback(lambda _done: reader.wake())
        try:
            await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
            await _say(send, b"retry: %d\n\n" % RETRY_MS)
            while not (leaving.done() or ring.is_closed):
                try:
                    news = await self._next(ring, reader)
                except Exception as error:  # noqa: BLE001 - whatever it is, the next stream begins again
                    log.warning("an open page cannot be told what it shows: %s", error)
                    await _say(send, b"retry: %d\n\n" % AFTER_FAILURE_MS)
                    break
                await _say(send, news)
            if not leaving.done():
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            ring.leave(reader)
            leaving.cancel()

    async def _joined(self, reader: EventReader) -> EventRing:
        joining = asyncio.ensure_future(asyncio.to_thread(self._join, reader))
        try:
            return await asyncio.shield(joining)
        except asyncio.CancelledError:  # the thread goes on
            joining.add_done_callback(partial(_leave_again, reader))
            raise

    async def _next(self, ring: EventRing, reader: EventReader) -> bytes:
        frames, self._last_id = await self._missed(ring)
        if frames:
            return frames
        return b"" if await reader.wait(SILENCE_S) else STILL_HERE

    async def _missed(self, ring: EventRing) -> tuple[bytes, str]:
        if ring.knows(self._last_id):
            return ring.since(self._last_id)
        return await asyncio.to_thread(ring.since, self._last_id)  # the whole state takes a while


def _leave_again(reader: EventReader, joining: asyncio.Future[EventRing]) -> None:
    if joining.exception() is None:
        joining.result().leave(reader)


async def _say(send: Send, content: bytes) -> None:
    if content:
        await send({"type": "http.response.body", "body": content, "more_body": True})


async def _left(receive: Receive) -> None:
    """Returns when the browser has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


def last_id_of(request: Request) -> str:
    """What the browser has heard last; where it has only loaded the page, what the page told it."""
    return (request.headers.get("last-event-id") or request.query_params.get("since", ""))[:MAX_ID]

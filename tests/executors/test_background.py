"""Work beside an event loop, and what becomes of it at the end."""

from __future__ import annotations

import asyncio
import threading

from swell.executors.local.background import ThreadBackground


def test_what_work_returns_is_heard_in_the_loops_thread() -> None:
    async def hear() -> tuple[int, int]:
        heard: asyncio.Future[tuple[int, int]] = asyncio.get_running_loop().create_future()
        background = ThreadBackground()
        background(threading.get_ident, lambda ident: heard.set_result((ident, threading.get_ident())))
        try:
            return await heard
        finally:
            background.close()

    worked_in, heard_in = asyncio.run(hear())
    assert worked_in != heard_in == threading.get_ident()


def test_nothing_is_done_once_it_is_closed() -> None:
    """As a timer does that fires while a host is shutting down."""
    done: list[str] = []

    async def close_first() -> None:
        background = ThreadBackground()
        background.close()
        background(lambda: done.append("worked"), lambda _: done.append("heard"))
        await asyncio.get_running_loop().shutdown_default_executor()

    asyncio.run(close_first())
    assert not done

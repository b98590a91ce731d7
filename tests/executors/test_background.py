"""Work beside an event loop, and what becomes of it at the end."""

from __future__ import annotations

import asyncio

from swell.executors.local.background import ThreadBackground


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

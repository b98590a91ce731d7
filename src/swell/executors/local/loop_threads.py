"""Work on files that may take long, beside an event loop that must not wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
#: One of them may sync gigabytes to a disk.
NUM_THREADS = 4


class LoopThreads:
    """Threads for an event loop. They are started when they are first needed."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(NUM_THREADS, "swell-files")
        self._is_closed = False

    def __call__(self, work: Callable[[], T], then: Callable[[T], None]) -> None:
        """Returns at once. `then` is called in the loop's thread, with what `work` has returned.

        `work` raises nothing: what may go wrong is a part of its result.
        """

        def settle(done: asyncio.Future[T]) -> None:
            if not done.cancelled():
                then(done.result())

        if self._is_closed:  # a timer of something that has ended may still fire
            return
        asyncio.get_running_loop().run_in_executor(self._threads, work).add_done_callback(settle)

    def close(self) -> None:
        """What has not begun never will, nor what is handed over later."""
        self._is_closed = True
        self._threads.shutdown(wait=False, cancel_futures=True)

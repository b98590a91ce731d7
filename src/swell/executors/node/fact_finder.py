"""Looks at this machine for the head, which may ask at any time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from swell.executors.local.machine_facts import MachineFacts


class FactFinder:
    """Probes this machine in a thread, for it may take seconds. Concurrent requests share one probe."""

    def __init__(self, probe: Callable[[], MachineFacts]) -> None:
        self._probe = probe
        self._looking: asyncio.Future[MachineFacts] | None = None

    def __call__(self, told: Callable[[MachineFacts], None]) -> None:
        """`told` is called in the running event loop; never, if this machine cannot be looked at."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.get_running_loop().run_in_executor(None, self._probe)
        self._looking.add_done_callback(lambda looking: told(looking.result()))

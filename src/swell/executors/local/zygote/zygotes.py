"""A zygote for each interpreter that jobs ask for; it stays as long as the agent."""

from __future__ import annotations

import asyncio
import hashlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from swell.executors.local.zygote.client import REAP_S, ZygoteClient
from swell.executors.local.zygote.launch import ZygoteProgram
from swell.executors.local.zygote.messages import Fork, WorkerAnswer

#: Modules that are there for any interpreter; what else is preloaded was chosen for the platform's.
EVERYWHERE = frozenset({"swell", "torch"})


class Zygotes:
    """Every method is called in the agent's event loop."""

    def __init__(
        self, preload: Sequence[str], state_dir: Path, lock_fd: int, hear: Callable[[WorkerAnswer], None]
    ) -> None:
        self._preload = preload
        self._state_dir = state_dir
        self._lock_fd = lock_fd
        self._hear = hear
        self._clients: dict[str, ZygoteClient] = {}  #: by interpreter

    def start(self) -> None:
        """Warm up that of the platform's interpreter."""
        self._client(sys.executable).start()

    @property
    def is_starting(self) -> bool:
        """See `ZygoteClient.is_starting`, of the platform's interpreter."""
        return self._client(sys.executable).is_starting

    def fork(self, request: Fork, python: str) -> None:
        """`python`: path of the worker's interpreter; empty: the platform's."""
        self._client(python or sys.executable).fork(request)

    def signal(self, key: str, number: int) -> None:
        """Send a signal to a worker, which one of them has."""
        for client in self._clients.values():
            client.signal(key, number)

    async def shut_down(self, reap_s: float = REAP_S) -> None:
        """See `ZygoteClient.shut_down`."""
        await asyncio.gather(*(client.shut_down(reap_s) for client in self._clients.values()))

    def _client(self, python: str) -> ZygoteClient:
        if python not in self._clients:
            name, preload = "zygote", tuple(self._preload)
            if python != sys.executable:
                name += f"-{hashlib.sha256(python.encode()).hexdigest()[:8]}"
                preload = tuple(name for name in preload if name.partition(".")[0] in EVERYWHERE)
            program = ZygoteProgram(python, preload, self._state_dir / f"{name}.log", self._lock_fd)
            self._clients[python] = ZygoteClient(program, self._hear)
        return self._clients[python]

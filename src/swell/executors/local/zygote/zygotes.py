"""A zygote for each interpreter that jobs ask for.

The platform's own stays, others while they have workers.
"""

from __future__ import annotations

import asyncio
import hashlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from swell.executors.local.zygote.client import REAP_S, ZygoteClient
from swell.executors.local.zygote.launch import ZygoteProgram
from swell.executors.local.zygote.messages import Exited, Fork, WorkerAnswer

#: The zygote of another interpreter than the platform's ends after so long without a worker.
IDLE_S = 300.0
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
        self._pythons: dict[str, str] = {}  #: worker -> its interpreter
        self._used_s: dict[str, float] = {}
        self._ending: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Warm up that of the platform's interpreter."""
        self._client(sys.executable).start()

    @property
    def is_starting(self) -> bool:
        """See `ZygoteClient.is_starting`, of the platform's interpreter."""
        return self._client(sys.executable).is_starting

    def fork(self, request: Fork, python: str) -> None:
        """`python`: path of the worker's interpreter; empty: the platform's."""
        self._pythons[request.key] = python or sys.executable
        self._client(python or sys.executable).fork(request)

    def signal(self, key: str, number: int) -> None:
        """Send a signal to a worker of any zygote."""
        if key in self._pythons:
            self._clients[self._pythons[key]].signal(key, number)

    def tick(self, now_s: float) -> None:
        """End those of interpreters that have had no worker for a while."""
        self._used_s.update(dict.fromkeys((sys.executable, *self._pythons.values()), now_s))
        for python in list(self._clients):
            if now_s - self._used_s.setdefault(python, now_s) > IDLE_S:
                del self._used_s[python]
                task = asyncio.get_running_loop().create_task(self._clients.pop(python).shut_down())
                self._ending.add(task)
                task.add_done_callback(self._ending.discard)

    async def shut_down(self, reap_s: float = REAP_S) -> None:
        """See `ZygoteClient.shut_down`."""
        await asyncio.gather(*(client.shut_down(reap_s) for client in self._clients.values()))
        await asyncio.gather(*self._ending)

    def _client(self, python: str) -> ZygoteClient:
        if python not in self._clients:
            name, preload = "zygote", tuple(self._preload)
            if python != sys.executable:
                name += f"-{hashlib.sha256(python.encode()).hexdigest()[:8]}"
                preload = tuple(name for name in preload if name.partition(".")[0] in EVERYWHERE)
            program = ZygoteProgram(python, preload, self._state_dir / f"{name}.log", self._lock_fd)
            self._clients[python] = ZygoteClient(program, self._heard)
        return self._clients[python]

    def _heard(self, answer: WorkerAnswer) -> None:
        if isinstance(answer, Exited):
            self._pythons.pop(answer.key, None)
        self._hear(answer)

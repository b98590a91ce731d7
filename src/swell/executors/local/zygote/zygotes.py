"""A zygote for each interpreter that jobs ask for.

The platform's own stays, others while they have workers.
"""

from __future__ import annotations

import asyncio
import hashlib
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from swell.executors.local.zygote.client import REAP_S, Callbacks, ZygoteClient
from swell.executors.local.zygote.forking import Fork
from swell.executors.local.zygote.place import BesideAgent

#: The zygote of another interpreter than the platform's ends after so long without a worker.
IDLE_S = 300.0
#: Modules that are there for any interpreter; what else is preloaded was chosen for the platform's.
EVERYWHERE = frozenset({"swell", "torch"})


def modules_everywhere(preload: Iterable[str]) -> tuple[str, ...]:
    """Those of the platform's preload that any interpreter with Swell has."""
    return tuple(name for name in preload if name.partition(".")[0] in EVERYWHERE)


class Zygotes:
    """Every method is called in the agent's event loop."""

    def __init__(self, preload: Sequence[str], state_dir: Path, lock_fd: int, callbacks: Callbacks) -> None:
        self._preload = preload
        self._state_dir = state_dir
        self._lock_fd = lock_fd
        self._callbacks = replace(callbacks, exited=self._exited)
        self._told = callbacks
        own = BesideAgent(sys.executable, preload, state_dir / "zygote.log", lock_fd)
        self._own = ZygoteClient(own, self._callbacks)
        self._others: dict[str, ZygoteClient] = {}  #: by interpreter
        self._pythons: dict[str, str] = {}  #: worker -> its interpreter, if that is another one
        self._used_s: dict[str, float] = {}
        self._ending: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Warm up that of the platform's interpreter."""
        self._own.start()

    @property
    def is_starting(self) -> bool:
        """See `ZygoteClient.is_starting`, of the platform's interpreter."""
        return self._own.is_starting

    def fork(self, request: Fork, python: str) -> None:
        """`python`: path of the worker's interpreter; empty: the platform's."""
        if python in ("", sys.executable):
            self._own.fork(request)
            return
        if python not in self._others:
            self._others[python] = self._new(python)
        self._pythons[request.key] = python
        self._others[python].fork(request)

    def signal(self, key: str, number: int) -> None:
        """Send a signal to a worker of any zygote."""
        python = self._pythons.get(key)
        (self._own if python is None else self._others[python]).signal(key, number)

    def tick(self, now_s: float) -> None:
        """End those of interpreters that have had no worker for a while."""
        self._used_s.update(dict.fromkeys(self._pythons.values(), now_s))
        for python in list(self._others):
            if now_s - self._used_s.setdefault(python, now_s) > IDLE_S:
                del self._used_s[python]
                self._end(self._others.pop(python))

    async def shut_down(self, reap_s: float = REAP_S) -> None:
        """Kill every worker and the zygotes; returns when all processes are gone.

        A zygote that has not told the end of its workers after `reap_s` is killed, and they with it.
        """
        nurseries = (self._own, *self._others.values())
        await asyncio.gather(*(zygote_client.shut_down(reap_s) for zygote_client in nurseries))
        await asyncio.gather(*self._ending)

    def _end(self, zygote_client: ZygoteClient) -> None:
        task = asyncio.get_running_loop().create_task(zygote_client.shut_down())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    def _new(self, python: str) -> ZygoteClient:
        name = hashlib.sha256(python.encode()).hexdigest()[:8]
        log = self._state_dir / f"zygote-{name}.log"
        place = BesideAgent(python, modules_everywhere(self._preload), log, self._lock_fd)
        return ZygoteClient(place, self._callbacks)

    def _exited(self, key: str, status: int, message: str) -> None:
        self._pythons.pop(key, None)
        self._told.exited(key, status, message)

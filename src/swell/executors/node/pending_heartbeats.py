"""Heartbeats of a host's workers: they wait for a moment, and go out for all workers together.

Each worker gives one every `Welcome.heartbeat_s`. One by one they would keep a controller busy that has a
thousand hosts, and would say no more: the newest of a worker says all that the ones before it said.
"""

from __future__ import annotations

from swell.executors.hosts.messages import FromHost, TellWorker, ToHost, WorkerSaid, WorkersAlive
from swell.wire.messages import Alive, Welcome

#: Told once in so many heartbeats. A worker that is silent for four of them may be given up.
HEARTBEATS_TOGETHER = 2


class PendingHeartbeats:
    """Heartbeats of one term that are yet to be sent. Times are of one clock."""

    def __init__(self) -> None:
        self._held: dict[str, dict[int, Alive]] = {}  #: by run and worker
        self._every_s = 0.0  #: unknown until a worker is welcomed
        self._told_s = float("-inf")

    def note_told(self, message: ToHost) -> None:
        """What the controller says; to be noted before the worker hears it."""
        if isinstance(message, TellWorker) and isinstance(message.message, Welcome):
            every_s = HEARTBEATS_TOGETHER * message.message.heartbeat_s
            self._every_s = min(self._every_s, every_s) if self._every_s else every_s

    def hold(self, message: FromHost) -> bool:
        """Whether it is told later. What a worker says besides is a sign of life itself."""
        if not isinstance(message, WorkerSaid):
            return False
        if isinstance(message.message, Alive):
            self._held.setdefault(message.run, {})[message.worker] = message.message
            return True
        if (held := self._held.get(message.run)) is not None:
            held.pop(message.worker, None)
        return False

    def take_due(self, now_s: float) -> WorkersAlive | None:
        """What is to be told now, if anything; to be called several times a second."""
        return self.take(now_s) if now_s - self._told_s >= self._every_s else None

    def take(self, now_s: float) -> WorkersAlive | None:
        """All that is held; None: nothing is."""
        if not self._held:
            return None
        runs, self._held, self._told_s = self._held, {}, now_s
        return WorkersAlive(runs=runs)

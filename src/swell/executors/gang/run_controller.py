"""What the controllers of gangs and of trial runs have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from swell.executors.gang.effects import Effect, WorkerExit
from swell.wire.messages import Alive, FromWorker


class RunController(Protocol):
    """Directs the processes of a gang or a trial: takes what happened at `now_s`, answers with what to do.

    No clock, no I/O. `now_s` never goes back; its zero is the caller's affair. Workers are numbered upwards,
    and no number is used twice.
    """

    @property
    def devices(self) -> tuple[str, ...]:
        """Devices of every process that lives, or is about to be started."""

    @property
    def is_over(self) -> bool:
        """Every process is gone and that was reported."""

    def forked(self, worker: int, pid: int, now_s: float) -> Sequence[Effect]:
        """The process of the worker was started."""

    def said(self, worker: int, message: FromWorker, now_s: float) -> Sequence[Effect]:
        """The worker sent a message."""

    def alive(self, pulses: Mapping[int, Alive], now_s: float) -> None:
        """Record heartbeats, by worker. The next tick acts on them."""

    def exited(self, worker: int, status: int, log_tail: str, now_s: float) -> Sequence[Effect]:
        """One worker is gone; see `WorkerExit`."""

    def exited_together(self, exits: Sequence[WorkerExit], now_s: float) -> Sequence[Effect]:
        """Several are gone at once, as when their host is: that is one loss."""

    def tick(self, now_s: float) -> Sequence[Effect]:
        """Time has passed. To be called several times a second."""

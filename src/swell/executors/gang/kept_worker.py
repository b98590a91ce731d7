"""What a host has kept of a worker, for a controller that starts again."""

from __future__ import annotations

import msgspec

from swell.wire.messages import Alive, FromWorker, Reported


class KeptExit(msgspec.Struct, frozen=True, kw_only=True):
    """Exit of a worker, with fields as in `WorkerExit`."""

    status: int
    log_tail: str


class KeptWorker(msgspec.Struct, frozen=True, kw_only=True):
    """A worker that lives, or of whose end the former controller may not have heard."""

    number: int
    pid: int | None = None  #: None: its process is still being started
    is_stopped: bool = False  #: by a signal
    num_orders: int = 0  #: number of the latest order that has passed the host
    num_said: int = 0  #: messages of the worker, without signs of life
    #: Messages that the record does not know of, each with its number; the latest of a kind and generation.
    said: tuple[tuple[int, FromWorker], ...] = ()
    reported: Reported | None = None  #: what its script has measured lately, told or not
    exit: KeptExit | None = None

    def unheard(self, num_heard: int) -> list[FromWorker]:
        """Messages that came after so many. A sign of life has the number of the message before it."""
        return [
            message
            for number, message in self.said
            if number > num_heard or (number == num_heard and isinstance(message, Alive))
        ]

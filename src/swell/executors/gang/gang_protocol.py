"""What every controller of a gang offers, and the records in which gangs go from one to the next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from swell.executors.gang.effects import Effect, WorkerExit
from swell.executors.gang.elastic_gang import ElasticGang
from swell.executors.gang.restart_gang import RestartGang
from swell.model.coding import decoder, encode
from swell.model.command import GangCommand
from swell.model.event import GangEnded, GangSuspended
from swell.wire.messages import Alive, FromWorker, Reported

GangRecord = ElasticGang | RestartGang


class RunController(Protocol):
    """Directs the processes of a gang or a trial: takes what happened at `now_s`, answers with what to do.

    No clock, no I/O. `now_s` never goes back; its zero is the caller's affair.
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


class GangProtocol(RunController, Protocol):
    """Directs the processes of one job.

    Workers are numbered upwards, from the number given to `number_from` at least, and none is used twice.
    """

    @property
    def gang(self) -> GangRecord:
        """What is known of it: with that another controller can take it over."""

    @property
    def generation(self) -> int:
        """Generation of the latest command."""

    @property
    def wanted_devices(self) -> tuple[str, ...]:
        """Devices of the workers that the gang is to have once the change under way is done."""

    @property
    def pids(self) -> tuple[int, ...]:
        """Process ids of all that live: the group in rank order, then the others."""

    @property
    def steps(self) -> int:
        """Finished, as far as is known."""

    def command(self, command: GangCommand, now_s: float) -> Sequence[Effect]: ...

    def number_from(self, first_worker: int) -> None:
        """A host that joins has seen all lower numbers: no later worker has one of them."""

    def take_over(self, now_s: float) -> Sequence[Effect]:
        """Go on with a former controller's gang. Call it before any other method."""

    def hear_again(self, worker: int, values: Reported, now_s: float) -> Sequence[Effect]:
        """What a script has measured lately, of which a former controller may have told."""


_decoder: msgspec.json.Decoder[GangRecord] = decoder(GangRecord)


class _KeptEnd(msgspec.Struct, frozen=True):
    end: GangEnded | GangSuspended | None = None


class _EndOfGang(msgspec.Struct, frozen=True):
    replies: _KeptEnd = _KeptEnd()


_end_decoder: msgspec.json.Decoder[_EndOfGang] = decoder(_EndOfGang)


def write_record(gang: GangRecord) -> msgspec.Raw:
    """Return the record of a gang as it is now."""
    return msgspec.Raw(encode(gang))


def end_in(record: msgspec.Raw) -> GangEnded | GangSuspended | None:
    """Return how the gang of a record ended; None: it has not. Raises msgspec.MsgspecError."""
    return _end_decoder.decode(record).replies.end


def read_record(record: msgspec.Raw) -> GangRecord:
    """Return the gang of a record. Raises msgspec.MsgspecError."""
    return _decoder.decode(record)

"""The inputs and the effects of a gang's protocol: plain values, so that any race can be a test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypedDict

from swell.executors.gang.records import GangRecord
from swell.model.command import GangCommand
from swell.model.event import AnyEvent
from swell.wire.messages import Alive, FromAgent, FromWorker


@dataclass(frozen=True, slots=True)
class Spawn:
    """Fork a worker that sees `devices`; answered by `forked` or `exited`."""

    worker: int
    devices: tuple[str, ...]
    environ: dict[str, str] = field(default_factory=dict)
    entry: str | None = None  #: instead of the job's script, without its arguments


@dataclass(frozen=True, slots=True)
class Send:
    """Say this to a worker; lost without notice if the worker is going."""

    worker: int
    message: FromAgent


@dataclass(frozen=True, slots=True)
class Kill:
    """Send the signal; SIGKILL goes to everything the worker started, too."""

    worker: int
    signal: int


@dataclass(frozen=True, slots=True)
class FindPort:
    """Name a free port of the host that has these devices; answered by `port_found` or `no_port`."""

    devices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """Tell the daemon."""

    event: AnyEvent


Effect = Spawn | Send | Kill | FindPort | Report


@dataclass(frozen=True, slots=True)
class WorkerExit:
    """How a worker ended."""

    worker: int
    status: int  #: exit code, minus the signal that ended the process, or one of `exit_status`
    log_tail: str  #: the end of its output, or why there is none


class GangEventFields(TypedDict):
    """What every event of a gang begins with."""

    job_id: str
    generation: int
    at_s: float


class GangProtocol(Protocol):
    """Directs the processes of one job: takes what happened at `now_s`, answers with what to do.

    No clock, no I/O. `now_s` never goes back; its zero is the caller's affair. Workers are numbered from
    the number given at construction, and none is used twice.
    """

    @property
    def generation(self) -> int:
        """Generation of the latest command."""

    @property
    def devices(self) -> tuple[str, ...]:
        """Devices of every process that lives, or is about to be started."""

    @property
    def wanted_devices(self) -> tuple[str, ...]:
        """Devices of the workers that the gang is to have once the change under way is done."""

    @property
    def pids(self) -> tuple[int, ...]:
        """Process ids of all that live: the group in rank order, then the others."""

    @property
    def steps(self) -> int:
        """Finished, as far as is known."""

    @property
    def is_over(self) -> bool:
        """Every process is gone and that was reported."""

    def command(self, command: GangCommand, now_s: float) -> Sequence[Effect]: ...

    def number_from(self, first_worker: int) -> None:
        """A host that joins has seen all lower numbers: no later worker has one of them."""

    def forked(self, worker: int, pid: int, now_s: float) -> Sequence[Effect]: ...

    def said(self, worker: int, message: FromWorker, now_s: float) -> Sequence[Effect]: ...

    def alive(self, pulses: Mapping[int, Alive], now_s: float) -> None:
        """Record heartbeats, by worker. The next tick acts on them."""

    def exited(self, worker: int, status: int, log_tail: str, now_s: float) -> Sequence[Effect]:
        """One worker is gone; see `WorkerExit`."""

    def exited_together(self, exits: Sequence[WorkerExit], now_s: float) -> Sequence[Effect]:
        """Several are gone at once, as when their host is: that is one loss."""

    def tick(self, now_s: float) -> Sequence[Effect]:
        """Time has passed. To be called several times a second."""

    def record(self) -> GangRecord:
        """What is in mind, for the controller that comes after."""

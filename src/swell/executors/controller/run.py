"""One set of workers that the controller directs: a job's gang or a trial run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from swell.executors.gang.effects import Effect, WorkerExit
from swell.executors.gang.elastic_controller import ElasticController
from swell.executors.gang.gang_protocol import GangRecord
from swell.executors.gang.restart_controller import RestartController
from swell.executors.hosts.messages import Dealings, RunSnapshot
from swell.model.job import JobSpec
from swell.wire.messages import Alive, FromWorker


class RunController(Protocol):
    """What a gang's protocol hears from its processes."""

    @property
    def devices(self) -> tuple[str, ...]:
        """Devices of its present and future processes."""

    @property
    def is_over(self) -> bool:
        """Whether all its processes are gone."""

    def forked(self, worker: int, pid: int, now_s: float) -> Sequence[Effect]:
        """The process of the worker was started."""

    def said(self, worker: int, message: FromWorker, now_s: float) -> Sequence[Effect]:
        """The worker sent a message."""

    def alive(self, pulses: Mapping[int, Alive], now_s: float) -> None:
        """These workers live; nothing else follows at once."""

    def exited(self, worker: int, status: int, log_tail: str, now_s: float) -> Sequence[Effect]:
        """The process ended. `status`: exit code, or minus the signal. `log_tail`: end of its output."""

    def exited_together(self, exits: Sequence[WorkerExit], now_s: float) -> Sequence[Effect]:
        """Several ended at once."""

    def tick(self, now_s: float) -> Sequence[Effect]:
        """Check time limits; called about ten times a second."""


@dataclass(slots=True)
class DirectedRun:
    """A directed run, gang or trial: its director, the hosts on which it is open, where its workers are."""

    key: str
    job_id: str
    spec: JobSpec
    director: RunController
    stopped: set[int] = field(default_factory=set)  #: workers whose processes were stopped by a signal
    is_trial: bool = False
    checkpoint_dirs: dict[str, str] = field(default_factory=dict)  #: by host on which it is open
    workers: dict[int, str] = field(default_factory=dict)  #: host of each one that has not ended
    dealings: dict[int, Dealings] = field(default_factory=dict)  #: with each of these
    port_host: str = ""  #: where a free port is looked for; empty: nowhere
    launch: int = 0  #: generation of the command that launched it
    total_steps: int | None = None
    record: RunSnapshot | None = None  #: that its hosts were told last; None: none, or it is a trial run
    finished_s: float | None = None  #: when the first of its workers met the end condition

    @property
    def gang(self) -> GangRecord:
        """What is known of its gang. A trial run has none."""
        assert isinstance(self.director, ElasticController | RestartController)  # noqa: S101
        return self.director.gang

    def is_on(self, host: str) -> bool:
        """Whether it is open there, has workers there, or looks for a port there."""
        return host in self.checkpoint_dirs or host == self.port_host or host in self.workers.values()

"""Messages between the director of a run and the hosts of its workers, each about one worker.

Plain values, so that any race can be a test.
"""

from __future__ import annotations

import signal

import msgspec

from swell.model.event import AnyEvent
from swell.wire.messages import (
    Alive,
    Broken,
    CheckpointDamaged,
    CheckpointSaved,
    Distributed,
    Drifted,
    Failed,
    Finished,
    FromAgent,
    FromWorker,
    Joined,
    JoinFailed,
    OutOfMemory,
    Progress,
    Regroup,
    SaveFailed,
    ScriptFound,
    Stepped,
)

#: To a worker, and to all that it has started.
KILL = int(signal.SIGKILL)


class HostMessage(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A message between the controller and a host, about one run."""


def trial_run(job_id: str) -> str:
    """How the trial run of a job is called."""
    return f"trial:{job_id}"


class StartWorker(HostMessage, frozen=True, kw_only=True):
    """Fork a worker that sees these devices of the host."""

    run: str
    worker: int
    devices: tuple[str, ...]
    environ: dict[str, str]
    entry: str | None = None  #: instead of the job's script, without its arguments
    is_first: bool = True  #: the run has no other worker on any host


class TellWorker(HostMessage, frozen=True, kw_only=True):
    """Say this to a worker; lost without notice if the worker is going."""

    run: str
    worker: int
    message: FromAgent


class SignalWorker(HostMessage, frozen=True, kw_only=True):
    """SIGKILL goes to everything that the worker started, too. No effect on one that is gone."""

    run: str
    worker: int
    signal: int


WorkerOrder = StartWorker | TellWorker | SignalWorker
#: What a director wants done: a host is told this, or the daemon.
Effect = WorkerOrder | AnyEvent


class WorkerForked(HostMessage, frozen=True, kw_only=True):
    """The process of the worker was started."""

    run: str
    worker: int
    pid: int  #: as the host's kernel numbers it


class WorkerSaid(HostMessage, frozen=True, kw_only=True):
    """A message of a worker."""

    run: str
    worker: int
    message: FromWorker


class WorkerHalted(HostMessage, frozen=True, kw_only=True):
    """The process of a silent worker was stopped by a signal, or (not `is_stopped`) goes on."""

    run: str
    worker: int
    is_stopped: bool


class WorkerExited(HostMessage, frozen=True, kw_only=True):
    """The process is gone, with all that it had started: its devices are free."""

    run: str
    worker: int
    status: int  #: exit code, minus a signal, or one of `executors.exit_status`
    log_tail: str  #: the end of its output, or why there was no process; empty if it ended well


OfWorker = WorkerForked | WorkerSaid | WorkerHalted | WorkerExited


# ---------------------------------------------------------------- what a host knows of a worker
#: Of these kinds the latest message stands, and may be heard twice.
STANDING = (
    Stepped
    | Distributed
    | Drifted
    | ScriptFound
    | CheckpointSaved
    | CheckpointDamaged
    | SaveFailed
    | OutOfMemory
    | Failed
    | Finished
)


class WorkerFacts(msgspec.Struct, kw_only=True):
    """What a new controller is told of a worker, by what passed between it and its controller.

    A host keeps no more than that: it has room for it, however long no controller is there.
    """

    number: int
    devices: tuple[str, ...]  #: that it sees
    pid: int | None = None  #: None: its process is still being started
    is_stopped: bool = False  #: by a signal
    steps: int = 0  #: finished, as it said last
    order: Regroup | None = None  #: the newest that it was given
    is_forming: bool = False  #: it has neither carried that out nor failed to
    joined: int | None = None  #: the group that it was in last
    is_broken: bool = False  #: that has failed
    standing: list[STANDING] = []  #: the latest of each kind
    exit: WorkerExited | None = None

    def enters(self, round: int) -> bool:
        """Whether it is in the group of this round, or was told to be and has not said that it cannot."""
        is_told = self.order is not None and self.order.generation == round and self.order.rank is not None
        return is_told and (self.is_forming or (self.joined == round and not self.is_broken))

    def note_order(self, said: FromAgent) -> None:
        """The worker is told this."""
        if isinstance(said, Regroup):
            self.order, self.is_forming = said, True

    def note(self, said: FromWorker) -> None:
        """The worker says this."""
        match said:
            case Joined() | JoinFailed() | Broken():
                self.steps = said.steps
                if self.order is not None and said.generation == self.order.generation:
                    self.is_forming = False
                if isinstance(said, Joined):
                    self.joined = said.generation
                if not isinstance(said, JoinFailed):
                    self.is_broken = isinstance(said, Broken)
            case Alive() | Progress():
                self.steps = max(self.steps, said.steps)
            case _ if isinstance(said, STANDING):
                others = [each for each in self.standing if type(each) is not type(said)]
                self.standing = [*others, said]

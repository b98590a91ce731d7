"""What the controller and a node host say to each other, in order, each message once.

A run is one set of worker processes: the gang of a job, or its trial run. On each host that has workers of it
it is opened before the first and closed after the last::

    controller                                  host
    OpenRun                        ->
                                   <-           RunOpened          (or RunRefused: nothing was opened)
    StartWorker                    ->
                                   <-           WorkerForked       (or WorkerExited alone: it could not be)
                                   <-           WorkerSaid, ...    its Hello comes first
    TellWorker, SignalWorker, ...  ->
                                   <-           WorkerExited       once, after its last word
    CloseRun                       ->                              no worker of it is left

To a controller that is new to it a host tells first, before `DevicesOffered`, what it has kept: a `RunKept`
for each run that is open, with a `WorkerKept` for each worker, and an `EndKept` for each gang that has ended.

Of files nothing is said: they lie in the storage that all hosts have in common.

With a host that has joined each message goes in an envelope that names the term of its lease.

No message carries a time: the controller stamps what it hears with its own clock. A worker is addressed by
its host, its run and its number, which no other worker of the job has.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from swell.executors.gang.job_context import DeviceBinding, MeetingPoint
from swell.model.event import GangEnded, GangSuspended, Outcome
from swell.model.job import JobSpec
from swell.model.node import Node
from swell.model.usage import GangUsage
from swell.wire.messages import Alive, FromAgent, FromWorker, Reported


class HostMessage(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """What all of them have in common."""


def trial_run(job_id: str) -> str:
    """How the trial run of a job is called."""
    return f"trial:{job_id}"


# ---------------------------------------------------------------- controller -> host
class OpenRun(HostMessage, frozen=True, kw_only=True):
    """Make ready for workers of this run: folders, code, limits. Answered once."""

    run: str
    job_id: str
    spec: JobSpec
    is_trial: bool = False  #: no cores are divided for it
    share: float | None = None  #: None: none was chosen


class StartWorker(HostMessage, frozen=True, kw_only=True):
    """Fork a worker that sees these devices of the host."""

    run: str
    worker: int
    devices: tuple[str, ...]
    environ: dict[str, str]
    entry: str | None = None  #: instead of the job's script, without its arguments
    number: int = 0  #: orders to a worker of a gang are numbered from 1; this is the first
    is_first: bool = True  #: the run has no other worker on any host


class TellWorker(HostMessage, frozen=True, kw_only=True):
    """Say this to a worker; lost without notice if the worker is going."""

    run: str
    worker: int
    message: FromAgent
    number: int = 0


class SignalWorker(HostMessage, frozen=True, kw_only=True):
    """SIGKILL goes to everything that the worker started, too. No effect on one that is gone."""

    run: str
    worker: int
    signal: int
    number: int = 0


class SetShare(HostMessage, frozen=True, kw_only=True):
    """Set the share of the host's cores that the run's processes have."""

    run: str
    share: float


WorkerOrder = StartWorker | TellWorker | SignalWorker


class Dealings(msgspec.Struct, kw_only=True):
    """What has passed between the controller and one worker."""

    num_heard: int = 0  #: messages of the worker, without signs of life
    num_orders: int = 0
    orders: tuple[WorkerOrder, ...] = ()  #: those that are not known to have passed the worker's host

    def number(self, order: WorkerOrder) -> WorkerOrder:
        """Record the next order, which is to be given as it is returned."""
        self.num_orders += 1
        numbered = msgspec.structs.replace(order, number=self.num_orders)
        self.orders = (*self.orders, numbered)
        return numbered

    def hear(self, said: FromWorker, num_orders: int) -> None:
        """The worker has said this, after so many orders had passed its host."""
        self.num_heard += not isinstance(said, Alive)
        self.orders = tuple(order for order in self.orders if order.number > num_orders)


class RunSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The record of a run as its hosts keep it: what a later controller needs to go on with it."""

    launch: int  #: generation of the command that launched it
    version: int  #: of this record: the highest of the latest launch counts
    hosts: tuple[str, ...]  #: on which the run is open
    workers: dict[int, str]  #: host of each one that has not ended
    dealings: dict[int, Dealings]  #: with these workers
    total_steps: int | None
    gang: msgspec.Raw  #: see `gang_record`
    end: GangEnded | GangSuspended | None = None  #: how that gang has ended


class KeepRecord(HostMessage, frozen=True, kw_only=True):
    """Have this ready for the next controller, in place of the last one; said before what follows from it."""

    run: str
    record: RunSnapshot


class CloseRun(HostMessage, frozen=True, kw_only=True):
    """No worker of the run is left on this host, and none will come."""

    run: str


ToHost = OpenRun | StartWorker | TellWorker | SignalWorker | SetShare | KeepRecord | CloseRun


# ---------------------------------------------------------------- host -> controller
class RunOpened(HostMessage, frozen=True, kw_only=True):
    """Workers of the run can be started."""

    run: str
    first_worker: int  #: no worker of this kind had this number here, or a higher one
    #: Where processes of a script meet that knows nothing of Swell, with rank 0 on this host.
    meeting_point: MeetingPoint | None = None


class RunKept(HostMessage, frozen=True, kw_only=True):
    """A run that another controller has opened and not closed."""

    order: OpenRun  #: by which it was opened
    opened: RunOpened  #: as it was answered
    record: RunSnapshot | None  #: None: the run was opened, and no more; or it is a trial run


class WorkerExited(HostMessage, frozen=True, kw_only=True):
    """The process is gone, with all that it had started: its devices are free."""

    run: str
    worker: int
    status: int  #: exit code, minus a signal, or one of `executors.exit_status`
    log_tail: str  #: the end of its output, or why there was no process; empty if it ended well


class KeptWorker(msgspec.Struct, kw_only=True):
    """A worker that lives, or of whose end the former controller may not have heard."""

    number: int
    pid: int | None = None  #: None: its process is still being started
    is_stopped: bool = False  #: by a signal
    num_orders: int = 0  #: number of the latest order that has passed the host
    num_said: int = 0  #: messages of the worker, without signs of life
    #: Messages that the record does not know of, each with its number; the latest of a kind and generation.
    said: tuple[tuple[int, FromWorker], ...] = ()
    reported: Reported | None = None  #: what its script has measured lately, told or not
    exit: WorkerExited | None = None

    def unheard(self, num_heard: int) -> list[FromWorker]:
        """Messages that came after so many. A sign of life has the number of the message before it."""
        return [
            message
            for number, message in self.said
            if number > num_heard or (number == num_heard and isinstance(message, Alive))
        ]


class WorkerKept(HostMessage, frozen=True, kw_only=True):
    """A worker of a run of which a `RunKept` has told."""

    run: str
    worker: KeptWorker


class EndKept(HostMessage, frozen=True, kw_only=True):
    """How a gang ended that had workers here; it may not have been told to a daemon."""

    end: GangEnded | GangSuspended


class DevicesOffered(HostMessage, frozen=True, kw_only=True):
    """What the host has, all of it; said after what it has kept, and again when it changes."""

    devices: dict[str, DeviceBinding]  #: by their ids, which no other host has; none: they come later
    num_cores: int  #: that its workers may use
    nodes: tuple[Node, ...] = ()  #: as the scheduler is to see them; none: the daemon names them itself


class RunRefused(HostMessage, frozen=True, kw_only=True):
    """Instead: why there can be no worker of the run here."""

    run: str
    outcome: Outcome  #: FAILED: the job itself makes it impossible; LOST: the host does, for now
    why: str
    is_lacking: bool = (
        False  #: the host has not what the job needs: until that is mended it will refuse again
    )


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
    num_orders: int = 0  #: number of the latest order that had passed the host


class WorkersAlive(HostMessage, frozen=True, kw_only=True):
    """The latest signs of life of workers that have said nothing else since; see `WorkerSaid`."""

    runs: dict[str, dict[int, Alive]]  #: by run and worker


class WorkerHalted(HostMessage, frozen=True, kw_only=True):
    """The process of a silent worker was stopped by a signal, or (not `is_stopped`) goes on."""

    run: str
    worker: int
    is_stopped: bool


class UsageRead(HostMessage, frozen=True, kw_only=True):
    """What a gang has used on this host, told every second where it can be read."""

    run: str
    usage: GangUsage


class OwnerWarned(HostMessage, frozen=True, kw_only=True):
    """What the owner of a job should know; see `JobWarned`."""

    job_id: str
    message: str
    about: str = ""


class HostLeaving(HostMessage, frozen=True, kw_only=True):
    """The machine is about to go, or to be taken by others: what runs here should move away in time.

    It is said again after each `DevicesOffered`.
    """

    within_s: float  #: from now on
    why: str  #: for people


FromHost = (
    RunKept
    | WorkerKept
    | EndKept
    | DevicesOffered
    | RunOpened
    | RunRefused
    | WorkerForked
    | WorkerSaid
    | WorkersAlive
    | WorkerHalted
    | WorkerExited
    | UsageRead
    | OwnerWarned
    | HostLeaving
)


# ---------------------------------------------------------------- in envelopes, with hosts that have joined
class ToldInTerm(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """See `NodeHost.tell`."""

    term: int
    message: ToHost


class LeaveOrdered(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The host was removed: it is to end its workers, say `HostLeft`, and end."""


ToJoined = ToldInTerm | LeaveOrdered


class SaidInTerm(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """What the host answers."""

    term: int
    message: FromHost


class HostLeft(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """No worker of this term is left, and none will be started in it. The process is about to end."""

    term: int


FromJoined = SaidInTerm | HostLeft


class NodeHost(Protocol):
    """A machine, as the controller sees it: takes messages, and answers by messages."""

    @property
    def is_reached(self) -> bool:
        """Whether it has a line now. What it is told without one waits."""

    def tell(self, message: ToHost) -> None:
        """Act on it, or send it. Never waits and never raises; answers come later or before this returns."""

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

To a controller that is new to it a host tells first, before `DevicesOffered`, what it knows: a `RunKept` for
each run that is open, and an `EndKept` for each gang that has ended.

Of files nothing is said: they lie in the storage that all hosts have in common.

With a host that has joined each message goes in an envelope that names the term of its lease.

Messages are plain values, so that any race can be a test. None carries a time: the controller stamps what it
hears with its own clock. A worker is addressed by its host, its run and its number, which no other worker of
the job has.
"""

from __future__ import annotations

import signal

import msgspec

from swell.executors.gang.gang_record import KnownGang
from swell.executors.gang.job_context import DeviceBinding, MeetingPoint
from swell.model.event import AnyEvent, GangEnded, GangSuspended, NodeTested, Outcome
from swell.model.job import JobSpec
from swell.model.node import Node
from swell.model.usage import DeviceReading, GangUsage
from swell.wire import messages

#: How a gang ends.
GangOver = GangEnded | GangSuspended
#: To a worker, and to all that it has started.
KILL = int(signal.SIGKILL)


class HostMessage(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A message between the controller and a host, about one run."""

    run: str


class WorkerMessage(HostMessage, frozen=True, kw_only=True):
    """One about a worker of the run."""

    worker: int


def trial_run(job_id: str) -> str:
    """How the trial run of a job is called."""
    return f"trial:{job_id}"


class StartWorker(WorkerMessage, frozen=True, kw_only=True):
    """Fork a worker that sees these devices of the host."""

    devices: tuple[str, ...]
    environ: dict[str, str]
    entry: str | None = None  #: instead of the job's script, without its arguments
    is_first: bool = True  #: the run has no other worker on any host


class TellWorker(WorkerMessage, frozen=True, kw_only=True):
    """Say this to a worker; lost without notice if the worker is going."""

    message: messages.FromAgent


class SignalWorker(WorkerMessage, frozen=True, kw_only=True):
    """SIGKILL goes to everything that the worker started, too. No effect on one that is gone."""

    signal: int


WorkerOrder = StartWorker | TellWorker | SignalWorker
#: What a director wants done: a host is told this, or the daemon.
Effect = WorkerOrder | AnyEvent


class WorkerForked(WorkerMessage, frozen=True, kw_only=True):
    """The process of the worker was started."""

    pid: int  #: as the host's kernel numbers it


class WorkerSaid(WorkerMessage, frozen=True, kw_only=True):
    """A message of a worker."""

    message: messages.FromWorker


class WorkerExited(WorkerMessage, frozen=True, kw_only=True):
    """The process is gone, with all that it had started: its devices are free."""

    status: int  #: exit code, minus a signal, or one of `executors.exit_status`
    log_tail: str  #: the end of its output, or why there was no process; empty if it ended well


OfWorker = WorkerForked | WorkerSaid | WorkerExited


# ---------------------------------------------------------------- what a host knows of a worker
#: Of these kinds the latest message stands, and may be heard twice.
STANDING = (
    messages.Stepped
    | messages.Distributed
    | messages.DriftFound
    | messages.ScriptFound
    | messages.CheckpointSaved
    | messages.CheckpointDamaged
    | messages.SaveFailed
    | messages.OutOfMemory
    | messages.Failed
    | messages.Finished
)


class WorkerState(msgspec.Struct, kw_only=True):
    """What a new controller is told of a worker, by what passed between it and its controller.

    A host keeps no more than that: it has room for it, however long no controller is there.
    """

    pid: int | None = None  #: None: its process is still being started
    steps: int = 0  #: finished, as it said last
    told: int = 0  #: the newest group of which it was told
    joined: int | None = None  #: the group that it is in; None: that has failed
    standing: list[STANDING] = []  #: the latest of each kind
    exit: WorkerExited | None = None

    def note_said(self, message: OfWorker) -> None:
        """What the host says of the worker."""
        match message:
            case WorkerForked(pid=pid):
                self.pid = pid
            case WorkerExited():
                self.exit = message
            case WorkerSaid(message=messages.Joined() | messages.Broken() as said):
                self.steps = said.steps
                self.joined = said.generation if isinstance(said, messages.Joined) else None
            case WorkerSaid(message=messages.JoinFailed(steps=steps)):
                self.steps = steps
            case WorkerSaid(message=messages.Alive(steps=steps) | messages.Progress(steps=steps)):
                self.steps = max(self.steps, steps)
            case WorkerSaid(message=said) if isinstance(said, STANDING):
                others = [each for each in self.standing if type(each) is not type(said)]
                self.standing = [*others, said]


# ---------------------------------------------------------------- controller -> host
class OpenRun(HostMessage, frozen=True, kw_only=True):
    """Make ready for workers of this run: folders, code, limits. Answered once."""

    job_id: str
    spec: JobSpec
    total_steps: int | None = None  #: of a gang's job, for the next controller
    is_trial: bool = False  #: no cores are divided for it
    share: float | None = None  #: None: none was chosen


class SetShare(HostMessage, frozen=True, kw_only=True):
    """Set the share of the host's cores that the run's processes have."""

    share: float


class KeepGang(HostMessage, frozen=True, kw_only=True):
    """Have this ready for the next controller, in place of the last one. It is said before what follows."""

    gang: KnownGang


class CloseRun(HostMessage, frozen=True, kw_only=True):
    """No worker of the run is left on this host, and none will come."""

    end: GangOver | None = None  #: of its gang; None: that goes on elsewhere, or never was


class TestDevices(HostMessage, frozen=True, kw_only=True):
    """Test these devices, which no worker uses; `NodeTested` follows. It belongs to no run."""

    run: str = ""
    node: str
    devices: tuple[str, ...]


ToHost = OpenRun | StartWorker | TellWorker | SignalWorker | SetShare | KeepGang | CloseRun | TestDevices


# ---------------------------------------------------------------- host -> controller
class RunOpened(HostMessage, frozen=True, kw_only=True):
    """Workers of the run can be started."""

    first_worker: int  #: no worker of this kind had this number here, or a higher one
    #: Where processes of a script meet that knows nothing of Swell, with rank 0 on this host.
    meeting_point: MeetingPoint | None = None


class RunKept(msgspec.Struct, kw_only=True, tag=True):
    """A run that another controller has opened and not closed."""

    order: OpenRun  #: by which it was opened
    opened: RunOpened  #: as it was answered
    gang: KnownGang | None = None  #: None: it has not started; or it is a trial run
    workers: dict[int, WorkerState] = {}

    @property
    def live(self) -> set[int]:
        """Workers that have not ended."""
        return {number for number, worker in self.workers.items() if worker.exit is None}


class EndKept(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """How a gang ended that had workers here; it may not have been told to a daemon."""

    end: GangOver


class DevicesOffered(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """What the host has, all of it; said after what it has kept, and again when it changes."""

    devices: dict[str, DeviceBinding]  #: by their ids, which no other host has; none: they come later
    num_cores: int  #: that its workers may use
    nodes: tuple[Node, ...] = ()  #: as the scheduler is to see them; none: the daemon names them itself
    limits_memory: bool = True  #: gangs can have no more than their jobs state, containers apart


class RunRefused(HostMessage, frozen=True, kw_only=True):
    """Instead: why there can be no worker of the run here."""

    outcome: Outcome  #: FAILED: the job itself makes it impossible; LOST: the host does, for now
    why: str
    #: The host has not what the job needs: until that is mended it will refuse again.
    is_lacking: bool = False


class WorkersAlive(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The latest signs of life of workers that have said nothing else since; see `WorkerSaid`."""

    runs: dict[str, dict[int, messages.Alive]]  #: by run and worker


class UsageRead(HostMessage, frozen=True, kw_only=True):
    """What a gang has used on this host, told every second where it can be read."""

    usage: GangUsage


class DevicesRead(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """What devices of the host do, told every ten seconds; the daemon is told it, too, and no journal."""

    readings: dict[str, DeviceReading]  #: by their ids


class OwnerWarned(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """What the owner of a job should know; see `JobWarned`."""

    job_id: str
    message: str
    about: str = ""


class HostLeaving(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The machine is about to go, or to be taken by others: what runs here should move away in time.

    It is said again after each `DevicesOffered`.
    """

    within_s: float  #: from now on
    why: str  #: for people


FromHost = (
    RunKept
    | EndKept
    | DevicesOffered
    | RunOpened
    | RunRefused
    | OfWorker
    | WorkersAlive
    | UsageRead
    | DevicesRead
    | NodeTested
    | OwnerWarned
    | HostLeaving
)


# ---------------------------------------------------------------- in envelopes, with hosts that have joined
class ToldInTerm(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """See `KnownHosts.join`."""

    term: int
    message: ToHost


class HostRemoved(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The host was removed: it is to end its workers, say `HostLeft`, and end."""


ToJoined = ToldInTerm | HostRemoved


class SaidInTerm(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """What the host answers."""

    term: int
    message: FromHost


class HostLeft(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """No worker of this term is left, and none will be started in it. The process is about to end."""

    term: int


FromJoined = SaidInTerm | HostLeft


#: Ended gangs that a host tells of.
MAX_ENDS = 100


class KeptRuns:
    """Runs of one host. Pure: its owner passes in what it hears."""

    def __init__(self) -> None:
        self._orders: dict[str, OpenRun] = {}  #: that were not answered yet
        self.runs: dict[str, RunKept] = {}  #: by their names
        self._ends: dict[str, EndKept] = {}  #: by run, the latest last

    def kept(self) -> list[RunKept | EndKept]:
        """What a new controller is told first."""
        return [*self.runs.values(), *self._ends.values()]

    def note_told(self, message: ToHost) -> None:
        """What the controller says; to be noted before the host acts on it."""
        if isinstance(message, OpenRun):
            self._orders[message.run] = message
            return
        if (run := self.runs.get(message.run)) is None:
            return
        match message:
            case StartWorker(worker=worker):
                run.workers[worker] = WorkerState()
            case TellWorker(worker=worker, message=messages.Regroup(generation=round)) if (
                worker in run.workers
            ):
                run.workers[worker].told = round
            case KeepGang(gang=gang):
                run.gang = gang
                for number in run.workers.keys() - run.live - gang.workers.keys():
                    del run.workers[number]  # it has ended, and was none of the gang
            case CloseRun(run=key, end=end):
                del self.runs[key]
                if end is not None:
                    self._ends[key] = EndKept(end=end)
                for oldest in list(self._ends)[:-MAX_ENDS]:
                    del self._ends[oldest]

    def note_answered(self, message: FromHost) -> None:
        """What the host says, whether a controller hears it or not."""
        match message:
            case RunOpened(run=key):
                if (order := self._orders.pop(key, None)) is not None:
                    self.runs[key] = RunKept(order=order, opened=message)
                    self._ends.pop(key, None)
            case RunRefused(run=key):
                self._orders.pop(key, None)
            case WorkerForked() | WorkerSaid() | WorkerExited():
                run = self.runs.get(message.run)
                if run is not None and message.worker in run.workers:
                    run.workers[message.worker].note_said(message)

"""Past tense: something happened at `at_s`. Time arrives in the core inside events, and only so.

That time is *head time*: seconds since 1970 as the platform has counted them since its first start. It never
jumps, as the machine's clock may (`model.calendar`).
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from swell.model.booking import Booking
from swell.model.job import PLAIN, JobSpec, Origin, Profile, plain_members
from swell.model.node import Node
from swell.model.quota import Quota
from swell.model.usage import DeviceTest, GangUsage
from swell.script_facts import BetweenSteps, ScriptFinding
from swell.tally import Tally


class Event(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Something that happened at head time `at_s`."""

    at_s: float


class JobEvent(Event, frozen=True, kw_only=True):
    """An event about one job."""

    job_id: str


class GangEvent(JobEvent, frozen=True, kw_only=True):
    """A report about one generation of a job's workers; a stale one is counted and ignored."""

    generation: int


@plain_members
class Outcome(StrEnum):
    """How a gang ended, or a trial run that measured nothing: that one is FAILED or LOST."""

    SUCCEEDED = "succeeded"  #: the end condition was met, or the script has left `run.epochs()` by itself
    ENDED_EARLY = "ended-early"  #: the script ended before that in another way
    TIMED_OUT = "timed-out"  #: it was ended at its limit of time
    FAILED = "failed"  #: the script raised or exited with an error: trying again would not help
    STOPPED = "stopped"  #: it was told to stop, and its processes are gone
    LOST = "lost"  #: no worker is left, through no fault of the script

    @property
    def is_of_script(self) -> bool:
        """Whether the script has come to its end by itself."""
        return self in (Outcome.SUCCEEDED, Outcome.ENDED_EARLY)


class JobSubmitted(JobEvent, frozen=True, kw_only=True):
    """A user submitted a job, and its specification was checked."""

    spec: JobSpec
    origin: Origin = PLAIN


class JobProfiled(JobEvent, frozen=True, kw_only=True):
    """A trial run measured the job."""

    profile: Profile
    attempt: int = 0  #: of the `ProfileJob` that this answers


class TrialQueued(JobEvent, frozen=True, kw_only=True):
    """The trial run of a job waits for devices that those of other jobs have, or has waited."""

    behind: tuple[str, ...]  #: these jobs; empty: it begins, or needs no run of its own any more
    waited_s: float  #: so far
    attempt: int = 0  #: of the `ProfileJob` that waits


class ProfilingFailed(JobEvent, frozen=True, kw_only=True):
    """The trial run ended without a profile, and its processes are gone."""

    message: str
    outcome: Outcome = Outcome.FAILED
    attempt: int = 0  #: of the `ProfileJob` that this answers
    is_taken: bool = False  #: no host had devices, or room, for it: no setback of the job, which waits
    devices: tuple[
        str, ...
    ] = ()  #: that its workers had; none: it had no workers, or they were another job's


class CancelRequested(JobEvent, frozen=True, kw_only=True):
    """The owner of the job cancelled it, or a job that it was to follow did not succeed."""

    why: str = ""  #: for people; empty: its owner did


class HoldRequested(JobEvent, frozen=True, kw_only=True):
    """The owner of the job asked for it to give up its devices, saved, and to wait until it is resumed."""


class ResumeRequested(JobEvent, frozen=True, kw_only=True):
    """The owner of a held job lets it go on."""


class PredecessorsSucceeded(JobEvent, frozen=True, kw_only=True):
    """Every job that this one was to follow has succeeded."""


class DeadlineChangeAsked(JobEvent, frozen=True, kw_only=True):
    """The owner of the job asked for another deadline, or for its first one, to be promised.

    If it cannot be, the job keeps what it has.
    """

    deadline_s: float  #: seconds since 1970, UTC, as in a `JobSpec`
    accept_until_s: float | None = None  #: likewise: a counter-offer that is no later is taken


class DifferencesAccepted(JobEvent, frozen=True, kw_only=True):
    """The owner of the job accepted findings about its script: they do not limit it any more."""

    names: tuple[str, ...]


class PriorityChanged(JobEvent, frozen=True, kw_only=True):
    """The owner of the job gave it another priority, another weight, or both."""

    priority: int | None = None  #: as in a `JobSpec`; None: as before
    weight: float | None = None  #: likewise


class GangStarted(GangEvent, frozen=True, kw_only=True):
    """Every worker is in the group; training begins (or goes on, at `steps`)."""

    steps: int
    pids: tuple[int, ...]  #: of the workers, in rank order


class GangResized(GangEvent, frozen=True, kw_only=True):
    """The new group trains; the workers that left are gone, and their devices are free."""

    steps: int
    pids: tuple[int, ...]  #: of the workers, in rank order


class ResizeFailed(GangEvent, frozen=True, kw_only=True):
    """The gang trains on at its former size; generation `generation` will never be."""

    message: str


class StepsReported(GangEvent, frozen=True, kw_only=True):
    """Progress since the gang's last report; many of a worker's reports are folded into one.

    Without workers it brings no steps, and says nothing of speed: only what the script has measured, as in an
    evaluation between two epochs.
    """

    steps: int  #: of the job's own batch, finished since the job began
    num_workers: int  #: that the steps of this report were made with; 0: it brings none
    global_batch: int | None = None  #: samples of each of them; None: the job's own batch
    step_s: float | None = None  #: mean seconds of such a step in the time reported on
    #: By device: its own seconds per sample, in the latest steps in which the workers compared them.
    sample_s: dict[str, float] = {}
    loss: float | None = None
    metrics: dict[str, float] = {}
    pause_s: float | None = None  #: time the latest change of the gang took from training
    between: BetweenSteps | None = None  #: epochs that ended in the time reported on, and what followed each
    noise_scale: float | None = None  #: samples; of a job whose batch is open: see `BatchProfile`
    save_s: float | None = None  #: mean that training stood still for one of its latest checkpoints
    #: Of a restart job: steps that its script found in the checkpoint it went on from; None: not known.
    found_steps: int | None = None
    usage: GangUsage | None = None  #: of the gang by now; None: it is not measured
    #: All values since the last report, by name. The store takes them: a journal has none, nor has the head.
    curves: dict[str, Tally] = {}
    #: Of the first report that this one stands for. Each later one of the same generation has a higher mark.
    mark: int = 0

    @property
    def brings_steps(self) -> bool:
        return self.num_workers > 0


class ScriptDistributed(JobEvent, frozen=True, kw_only=True):
    """The script of a restart job works with other workers: more of them are no identical copies."""


class ScriptVerified(JobEvent, frozen=True, kw_only=True):
    """A fresh worker has computed a step of the job again from a checkpoint, or could not."""

    steps: int | None = None  #: of the checkpoint; None: nothing was computed, see `why_not`
    findings: tuple[ScriptFinding, ...] = ()  #: how the step came out otherwise; empty: it did not
    why_not: str = ""


#: Topic of the warning that a running gang makes no steps, which its next step ends.
STEPS = "steps"
#: Of the one that a running gang holds devices that it does not use, which ends when it does.
IDLE = "idle devices"


class JobWarned(JobEvent, frozen=True, kw_only=True):
    """Something its owner should know and that did not stop it: a checkpoint could not be written.

    A warning with a topic (`about`) stands until the next one of that topic; an empty message ends it. One
    without a topic is told once.
    """

    message: str
    about: str = ""  #: `checkpoint`, `output`, ...: one warning for each topic


class JobLinked(JobEvent, frozen=True, kw_only=True):
    """The job's program has named an address that belongs to the job, such as that of its curves."""

    name: str
    url: str


class HostRuledOut(JobEvent, frozen=True, kw_only=True):
    """A host lacks what the job needs, and cannot run it until that is mended. `devices` are all of its."""

    devices: tuple[str, ...]
    message: str


class WorkersLost(GangEvent, frozen=True, kw_only=True):
    """Some workers are gone, the others go on by themselves; `devices` are those of the former.

    A change under way is off, a suspend apart: the processes of its joiners are gone too. The next resize is
    to what is left; any other was asked for before this was heard, and fails.
    """

    devices: tuple[str, ...]
    message: str


class SuspendFailed(GangEvent, frozen=True, kw_only=True):
    """The checkpoint could not be written; the gang trains on as it was."""

    message: str


class GangSuspended(GangEvent, frozen=True, kw_only=True):
    """State is in a checkpoint, processes are gone, devices are free."""

    steps: int


class GangEnded(GangEvent, frozen=True, kw_only=True):
    """Every process is gone, devices are free."""

    outcome: Outcome
    steps: int  #: of one that was lost, those that a checkpoint has, as far as is known
    message: str = ""
    is_over_memory: bool = False  #: it was lost, and the kernel had ended a worker for its job's memory limit


class GangFound(GangEvent, frozen=True, kw_only=True):
    """A gang runs, on `devices`, that the journal does not explain: it is of another journal than this one.

    It is ended, and its devices are free when `GangSuspended` or `GangEnded` tells that it is gone. What the
    journal believes of the job's gang is not so.
    """

    devices: tuple[str, ...]
    steps: int


class NodeJoined(Event, frozen=True, kw_only=True):
    """A node joined the cluster with its devices, or is another one than before under its name.

    What a `NodeWarned` said of it stays so, until `NodeCleared` or the loss of its host. A controller that is
    new tells again of each node that is there.
    """

    node: Node
    is_untested: bool = False  #: if it was not there before, no job has its devices until `NodeTested`


class NodeWarned(Event, frozen=True, kw_only=True):
    """A node is to be left: nothing is placed on it any more, and what is there moves to other nodes.

    Those with other causes stay in force beside it; one with the same cause is replaced.
    """

    name: str
    until_s: float | None = None  #: when it will be gone, in head time; None: it stays, without work
    why: str = ""  #: for people
    is_ill: bool = False  #: it holds if the node is lost and comes back, too: only `NodeCleared` ends it


class NodeCleared(Event, frozen=True, kw_only=True):
    """What a `NodeWarned` said of a node is no longer so: jobs may have its devices again, if no other one
    stands.
    """

    name: str
    why: str = ""  #: of the warning that is meant; empty: all of them


class NodeTested(Event, frozen=True, kw_only=True):
    """The devices of a node were tested. If all are sound it is no longer ill; else it is ill."""

    name: str
    results: tuple[DeviceTest, ...]


class NodeEndKnown(Event, frozen=True, kw_only=True):
    """It is known long before when a node is to be left for good: an allocation has a time limit, say.

    Jobs have its devices until then, and no promise counts on them beyond. It may come before the node joins,
    and holds until another one, or the loss of its host.
    """

    name: str
    until_s: float | None  #: when it is to be left, in head time; None: no end is known


class KindAllowed(Event, frozen=True, kw_only=True):
    """The operator lets jobs have devices of this kind, which are there or will be."""

    kind: str


class NodeLost(Event, frozen=True, kw_only=True):
    """A node left the cluster with its devices.

    Told before the `WorkersLost` and `GangEnded` that follow from it: so these count as no fault of a job.
    """

    name: str
    cause: str = ""  #: for people; empty: its owner knows
    is_host_kept: bool = False  #: it may come back as it was; told again without this once its host is lost


class Woke(Event, frozen=True, kw_only=True):
    """A `WakeAt` came due."""


class DrainRequested(Event, frozen=True, kw_only=True):
    """The platform is to stop: every job is suspended, and nothing is started."""


class Opened(Event, frozen=True, kw_only=True):
    """The platform is up (again): jobs may run, and this policy decides about them from here on."""

    policy: str = ""  #: empty: the one it had
    boot_id: str = ""  #: of the machine; empty where its kernel names none
    boot_offset_s: float = 0.0  #: head time less CLOCK_BOOTTIME, for as long as this boot lasts
    #: Calendar less head time; None: of a version whose head lived by the calendar, or it is as it was.
    calendar_offset_s: float | None = None
    #: Of the platform's own devices: nodes of another new kind wait for `KindAllowed`. None: of a version in
    #: which they joined at once.
    kinds: tuple[str, ...] | None = None


class ClockStepped(Event, frozen=True, kw_only=True):
    """The machine's clock was set, and has kept the new time for a while."""

    calendar_offset_s: float  #: calendar less head time, from now on


class QuotasSet(Event, frozen=True, kw_only=True):
    """The operator has changed quotas: these hold from now on, in place of all earlier ones."""

    quotas: dict[str, Quota]  #: by tenant; of others nothing is limited
    weights: dict[str, float] = {}  #: by account, > 0; those of others are 1


class BookingMade(Event, frozen=True, kw_only=True):
    """Devices are booked: the head has told before that no promise breaks by it."""

    booking: Booking


class BookingRemoved(Event, frozen=True, kw_only=True):
    """A booking is no more; its owner's jobs that run in it go on as others do."""

    booking_id: str


class EventSetAside(Event, frozen=True, kw_only=True):
    """The head could not handle an event: this stands in its place in the journal, and its job has failed."""

    job_id: str = ""  #: that ends as failed; empty: the event is about no job
    event: AnyEvent | None = None  #: None: it was no event, but the job as it had become
    why: str  #: the error, in one line
    trace: str


class PlanFailed(Event, frozen=True, kw_only=True):
    """No plan could be made of the batch, at whose end this stands: the last one is followed."""

    kind: str = ""  #: of the devices that were to be planned for; empty: there is no other
    why: str  #: the error, in one line
    trace: str


AnyEvent = (
    JobSubmitted
    | JobProfiled
    | TrialQueued
    | ProfilingFailed
    | CancelRequested
    | HoldRequested
    | ResumeRequested
    | PredecessorsSucceeded
    | DeadlineChangeAsked
    | DifferencesAccepted
    | PriorityChanged
    | GangStarted
    | GangResized
    | ResizeFailed
    | StepsReported
    | ScriptDistributed
    | ScriptVerified
    | JobWarned
    | JobLinked
    | HostRuledOut
    | WorkersLost
    | SuspendFailed
    | GangSuspended
    | GangEnded
    | GangFound
    | NodeJoined
    | NodeWarned
    | NodeTested
    | NodeCleared
    | NodeEndKnown
    | KindAllowed
    | NodeLost
    | Woke
    | DrainRequested
    | Opened
    | ClockStepped
    | QuotasSet
    | BookingMade
    | BookingRemoved
    | EventSetAside
    | PlanFailed
)


class RunningWork(msgspec.Struct, frozen=True, kw_only=True):
    """Running work as the executor knows it; the journal may know less of it, or something else."""

    gangs: tuple[GangFound, ...] = ()  #: live ones
    ended: dict[str, int] = {}  #: job -> generation of a gang whose end is yet to be told
    trials: tuple[str, ...] = ()  #: jobs whose trial run is under way, or waits
    nodes: tuple[Node, ...] = ()  #: that have joined, beside those of the platform's own machine
    away: tuple[str, ...] = ()  #: names of nodes that are not there, while their hosts are

    @property
    def jobs(self) -> frozenset[str]:
        """Jobs that have a gang, or had one whose end is yet to be told."""
        return frozenset({gang.job_id for gang in self.gangs} | set(self.ended))

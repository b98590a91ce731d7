"""What people and programs are shown of a job, a node and a decision. JSON field names are these."""

from __future__ import annotations

import msgspec

from swell.model.booking import Booking
from swell.model.job import LOSS, Elasticity, FixedTerms, JobClass, Phase
from swell.model.resize import Resize
from swell.model.usage import AccountShare, DeviceReading, DeviceTest
from swell.script_facts import ScriptFinding


class Story(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened to a job, or was decided about it, and why."""

    at_s: float
    code: str
    text: str


class MetricCurve(msgspec.Struct, frozen=True, kw_only=True):
    """The history of one metric in columns, oldest point first.

    A point stands for all values that were reported in its steps. It has null for each number that it lacks:
    all of its values were NaN or infinite.
    """

    name: str
    reduction: str  #: how the values of several workers became one, as the script declared it
    first_step: list[int]
    last_step: list[int]
    at_s: list[float]  #: when the last value was reported
    num_workers: list[int]  #: at that moment
    count: list[int]  #: values that are finite numbers: `mean` and the others are of these
    not_finite: list[int]  #: values that are NaN or infinite
    mean: list[float | None]
    min: list[float | None]
    max: list[float | None]
    last: list[float | None]


class MetricHistory(msgspec.Struct, frozen=True, kw_only=True):
    """What a job has reported."""

    series: list[MetricCurve]  #: sorted by name


class JobView(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A job as it stands. Times are seconds since 1970, in head time; the API shows calendar time."""

    id: str
    name: str
    tenant: str = ""
    user: str = ""  #: who submitted it; empty: the owner of the platform
    job_class: JobClass
    priority: int = 0  #: of its class the jobs with the highest go first
    speed: dict[int, float] = {}  #: workers -> samples a second, as its owner states them
    resize_up_s: float | None = None  #: that a growth takes from training, as its owner states it
    resize_down_s: float | None = None  #: likewise, of a shrink
    keeps_estimates: bool = False  #: what its owner states counts, whatever is measured
    weight: float = 1.0  #: factor of what the job gains, in policies that add up gains
    phase: Phase
    entry: str
    args: tuple[str, ...]
    global_batch: int
    batch: int = 0  #: samples of a step as it trains now, will from its start, or did last; 0: not known yet
    min_batch: int | None = None  #: of a job whose batch is open, as is `max_batch`
    max_batch: int | None = None
    batch_per_worker: int | None = None  #: of a job whose batch grows with its workers
    noise_scale: float | None = None  #: of its gradients, in samples; None: nothing was measured
    min_workers: int
    max_workers: int | None
    devices_per_worker: int
    elasticity: Elasticity = Elasticity.LIVE
    fixed: FixedTerms | None = None  #: of a fixed job
    booking: str = ""  #: id of the booking on whose devices it runs
    secrets: tuple[str, ...] = ()  #: names of its variables whose values are kept apart
    submitted_s: float
    deadline_s: float | None
    is_promised: bool
    counter_offer_s: float | None  #: refused: the earliest deadline that could have been promised
    is_unpromised: bool = False  #: its deadline could not be promised, and is tried all the same
    is_void: bool = False  #: it was promised before its script was found to limit it, which is in the way
    refusal: str = ""  #: why the deadline that was asked for last was not promised, of a job that goes on
    asked_deadline_s: float | None = None  #: another deadline was asked for, and is not decided yet
    is_held: bool = False  #: its owner has it wait, without a gang once that is saved
    awaits: tuple[str, ...] = ()  #: ids of the jobs that it is to follow, until all of them have succeeded
    started_s: float | None  #: the first gang began to train
    estimate_s: float | None = None  #: its owner's, of its time on one worker
    alone_s: float | None = None  #: that time as measured; None while it is not known
    start_s: float | None = None  #: length of the latest start: from the launch until the gang trained
    finished_s: float | None  #: the job ended, in whichever way
    estimated_finish_s: float | None  #: None once it has ended, or while nothing that there is can run it
    kept: bool | None  #: finished in time; None while open, without a deadline, refused or cancelled
    workers: int
    devices: tuple[str, ...]
    generation: int
    sizes: tuple[tuple[float, int], ...]  #: (at_s, workers) at each change, 0 when it held none
    pids: tuple[int, ...]  #: of every worker process it ever had, in order of appearance
    live_pids: tuple[int, ...] = ()  #: of the workers of its gang, in rank order; empty when it has none
    resizes: int  #: changes of a running gang, inside its live processes
    resize_pause_s: float  #: time these took from training, summed
    resize_saved_s: float = 0.0  #: by growing, each growth against the size before it, pauses taken off
    resize_history: tuple[Resize, ...] = ()  #: the latest ones, oldest first
    steps: int
    total_steps: int | None
    repeated_steps: int = 0  #: seen twice, as a restart job's script went on from an older checkpoint
    step_s: float | None
    stalled_since_s: float | None = None  #: it runs, and has made no step since; None: it makes steps
    checkpoint_interval_s: float | None = None  #: None: it has no gang, or the platform has fixed it
    save_s: float | None = None  #: that training stands still for a checkpoint; None: not measured
    mean_time_to_loss_s: float | None = None  #: expected, of training that is not saved; None: not asked
    loss: float | None
    metrics: dict[str, float]
    metric: str = LOSS  #: name of its evaluation function: `loss`, or of one of `metrics`
    metric_rises: bool = False  #: learning raises it
    share: float | None = None  #: of the cores of its node, relative to its neighbours; None: not divided
    cpu_s: float | None = None  #: CPU time of its workers so far; None: not measured
    memory_used_bytes: int | None = None  #: of its workers, resident
    read_bytes: int | None = None  #: from block devices by its workers so far; None: not measured
    written_bytes: int | None = None  #: likewise
    #: (at_s, use of its devices by then, integrated over time): of once a day, and the latest. None of a job
    #: of which it was not measured.
    used: tuple[tuple[float, float], ...] = ()
    reading: DeviceReading | None = None  #: what its devices do together; None: it is not known
    idle_since_s: float | None = None  #: it holds devices that it does not use; None: it uses all
    reason_code: str
    reason: str
    retry_s: float | None = None  #: after a failure it gets no workers before this time, which may be over
    message: str  #: how it failed, or what to look at; empty if nothing
    code: str = ""  #: digest of the snapshot of its code; empty: it runs the files as they are
    warnings: dict[str, str] = {}  #: topic -> what its owner should know; one that is over is gone
    links: dict[str, str] = {}  #: addresses by name, which its program has told
    continues: str = ""  #: id of the ended job from whose checkpoint it went on; empty: of none
    kind: str = ""  #: of the devices that it runs on; empty: no node has joined yet
    group: str = ""  #: of jobs that belong together, such as those of a sweep; empty: none
    tags: tuple[str, ...] = ()  #: words of its owner, such as `lr=0.1`
    webhook: bool = False  #: an address that its owner has named is told of it
    findings: tuple[ScriptFinding, ...] = ()  #: ways in which its result depends on its sizes
    held_by: tuple[str, ...] = ()  #: names of those that limit it to its smallest number of workers
    verified_steps: int | None = None  #: up to here a new worker has computed the same; None: none has
    unverified: str = ""  #: why the latest new worker has computed nothing; empty: it has


def is_set_aside(view: JobView) -> bool:
    """Whether the job gets no devices for now, as its owner asked."""
    return view.is_held or bool(view.awaits)


def keeps_devices(view: JobView) -> bool:
    """Whether it runs a command that cannot give up its devices and go on later."""
    return view.fixed is not None and not view.fixed.may_suspend and view.phase.holds_devices


class PrunedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job that was removed, or would be removed without the dry run."""

    job_id: str
    ended_s: float
    freed_bytes: int


class SubmitResult(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a submission."""

    id: str
    is_new: bool  #: False: the same request was submitted before under the same idempotency key
    continues: str = ""  #: as in `JobView`
    steps: int = 0  #: that the checkpoint holds from which it goes on
    left_out: str = ""  #: files in the job's folder that the copy of its code lacks; empty: none to tell


class NodeLeaving(msgspec.Struct, frozen=True, kw_only=True):
    """Why nothing is placed on a node any more."""

    since_s: float
    until_s: float | None  #: when it will be gone; None: it stays, without work
    why: str
    is_ill: bool = False  #: a device or the machine is faulty


class LostNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node that was lost lately, and has not joined again."""

    name: str
    lost_s: float
    cause: str


class NodeView(msgspec.Struct, frozen=True, kw_only=True):
    """One node, and which job holds each of its devices."""

    name: str
    rack: str
    kind: str
    is_borrowed: bool
    devices: dict[str, str | None]  #: device id -> the job that holds it
    until_s: float | None = None  #: when it is to be left for good, where that is known
    cores: float | None = None  #: that the workers on its devices share; None: each device has its own
    is_joined: bool = False  #: of a host of another machine; False: of the platform's own one
    address: str = ""  #: from which its host joined; empty: not known
    lacks: tuple[str, ...] = ()  #: what its host cannot do, and what is odd about it
    leaving: NodeLeaving | None = None  #: None: jobs may be placed on it
    slow: dict[str, str] = {}  #: devices that are slower than others of their kind, and how it is known
    readings: dict[str, DeviceReading] = {}  #: what devices do, by id; of others it is not known
    tests: tuple[DeviceTest, ...] = ()  #: what the latest test of its devices has found
    tested_s: float | None = None  #: when that was; None: never, since its host joined
    islands: str = ""  #: groups of devices that are joined closer, such as `4/2`; empty: all are alike

    @property
    def jobs(self) -> list[str]:
        """Those that hold devices of it."""
        return sorted({holder for holder in self.devices.values() if holder is not None})


class BorrowedNodes(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes that others may take back at any second, since the platform began."""

    num_there: int
    num_given_back: int  #: that are there no longer: taken back, given back unused, or lost
    lent_s: float  #: how long they were there together, in seconds of a node


class ClusterView(msgspec.Struct, frozen=True, kw_only=True):
    """The platform itself."""

    version: str
    policy: str
    now_s: float
    started_s: float
    nodes: tuple[NodeView, ...]
    num_devices: int
    num_free: int
    num_stale_reports: int
    journal_bytes: int
    clock_note: str = ""  #: a step of the machine's clock, while it matters
    disk_free_bytes: int = 0  #: of the state folder
    disk_bytes: int = 0  #: in all
    warnings: dict[str, str] = {}  #: topic -> what its owner should know: `journal`, `disk`
    lost_nodes: tuple[LostNode, ...] = ()  #: the latest last
    bookings: tuple[Booking, ...] = ()  #: that are not over, the next one first
    borrowed: BorrowedNodes | None = None  #: None: there never was one
    hosts_may_join: bool = False  #: hosts of other machines
    engine: str = ""  #: what brings these hosts; empty: people do
    accounts: tuple[AccountShare, ...] = ()  #: tenants, and users of jobs without one
    no_nodes: str = ""  #: what users are told of that while there are none

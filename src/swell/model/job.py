"""What a user asked for."""

from __future__ import annotations

import math
from enum import Enum, StrEnum
from typing import TypeVar

import msgspec

from swell.model.webhook import Webhook
from swell.script_facts import BetweenSteps, ScriptFinding, ScriptNumbers

AnyEnum = TypeVar("AnyEnum", bound=type[Enum])

#: Name of the evaluation function of a job that names none.
LOSS = "loss"

#: The highest priority of a job; the lowest is as far below 0.
MOST_PRIORITY = 1000
#: The largest weight of a job; the smallest is as many times below 1.
MOST_WEIGHT = 1e6


def plain_members(kind: AnyEnum) -> AnyEnum:
    """Members become plain attributes of their class: Python 3.11 calls a function for each look at one."""
    for name, member in kind.__members__.items():
        type.__setattr__(kind, name, member)
    return kind


@plain_members
class Phase(StrEnum):
    """Where a job is in its life. Everything else one might say about it is a `Reason`."""

    QUEUED = "queued"  #: wants devices, holds none
    STARTING = "starting"  #: devices are its own, workers are not yet up
    RUNNING = "running"  #: making progress; its gang may change while it runs
    STOPPING = "stopping"  #: saving and leaving, still holds its devices
    SUCCEEDED = "succeeded"
    ENDED_EARLY = "ended-early"  #: its script came to an end before its end condition was met
    FAILED = "failed"
    TIMED_OUT = "timed-out"  #: it was ended at its limit of time
    CANCELLED = "cancelled"
    REJECTED = "rejected"

    __hash__ = str.__hash__  # an Enum's own is written in Python, and phases are looked up all the time

    is_end: bool  #: nothing will happen to it any more
    holds_devices: bool


for _phase in Phase:  # plain attributes: both are asked for several times a job and turn
    _phase.is_end = _phase in (
        Phase.SUCCEEDED,
        Phase.ENDED_EARLY,
        Phase.FAILED,
        Phase.TIMED_OUT,
        Phase.CANCELLED,
        Phase.REJECTED,
    )
    _phase.holds_devices = _phase in (Phase.STARTING, Phase.RUNNING, Phase.STOPPING)


@plain_members
class JobClass(StrEnum):
    """What a job's deadline means."""

    STRICT = "strict"  #: the deadline is promised, or the job is refused with a counter-offer
    SOFT = "soft"  #: finishing late still counts; served after promises
    BEST_EFFORT = "best_effort"  #: no deadline; shortest average completion


@plain_members
class AfterRefusal(StrEnum):
    """What becomes of a strict job whose deadline cannot be promised."""

    END = "end"  #: it ends, refused, with a counter-offer
    SOFT = "soft"  #: it runs as a soft job with its deadline: not promised, but tried


@plain_members
class Elasticity(StrEnum):
    """How a job's gang can change."""

    LIVE = "live"  #: the script uses `swell.train`; the gang changes inside live processes
    RESTART = "restart"  #: it does not; all workers stop and start from the script's own checkpoint
    FIXED = "fixed"  #: any command: it has one size, from its start to its end


#: What each part of a fixed job runs: it executes the command.
FIXED_ENTRY = "swell.executors.local.command:run"
SESSION_ENTRY = "swell.executors.local.terminal:run"
#: In the arguments of a restart job it stands for the part of `global_batch` that each worker takes.
LOCAL_BATCH = "{local_batch}"


@plain_members
class CodeSource(StrEnum):
    """Which code a job's workers run."""

    SNAPSHOT = "snapshot"  #: as it was when the job was submitted, whichever worker starts when
    LIVE = "live"  #: as the files are when a worker starts


@plain_members
class DriftAction(StrEnum):
    """What to do where the workers' replicas differ."""

    WARN = "warn"  #: say so
    HEAL = "heal"  #: give rank 0's state to all, and say so
    FAIL = "fail"  #: end as failed


@plain_members
class DifferenceAction(StrEnum):
    """What to do where a new process computes something else than the workers of a job."""

    HOLD = "hold"  #: keep the job at its smallest size
    ROLL_BACK = "roll_back"  #: likewise, from the newest checkpoint from which one has computed the same


class MetricTarget(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Stop early once a reported metric is good enough: `name >= value` or `name <= value`."""

    name: str
    value: float
    at_least: bool = True

    def is_met_by(self, value: float) -> bool:
        return value >= self.value if self.at_least else value <= self.value

    def __str__(self) -> str:
        return f"{self.name}{'>=' if self.at_least else '<='}{self.value:g}"


class EndCondition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """When a job is done: after so many steps, epochs or samples, or sooner when `target` is met.

    None of the three is set for a job that ends as its script does: a restart job that tells no steps, or a
    live one until its trial run has told.
    """

    steps: int | None = None
    epochs: float | None = None
    samples: int | None = None
    target: MetricTarget | None = None

    def total_steps(self, global_batch: int, samples_per_epoch: int | None) -> int | None:
        """Optimizer steps until the end, or None while the length of an epoch is unknown.

        An epoch has ceil(samples_per_epoch / global_batch) steps: its last batch may be short.
        """
        if self.steps is not None:
            return self.steps
        if self.samples is not None and global_batch:
            return -(-self.samples // global_batch)
        if self.epochs is None or not samples_per_epoch:
            return None
        steps_per_epoch = -(-samples_per_epoch // global_batch)
        return max(1, round(self.epochs * steps_per_epoch))


class FixedTerms(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a fixed job has beside its command, which is its `args`, and its devices.

    A part of it, one for each of its `min_workers`, is started on one node.
    """

    time_s: float  #: its processes are ended after so long
    grace_s: float = 30.0  #: from SIGTERM to SIGKILL, at its limit and wherever else it is ended
    may_suspend: bool = False  #: others may have its devices: it is ended then, and starts again later
    retries: int = 0  #: starts after the first, once its processes were lost, or ended for others
    is_session: bool = False  #: it has a terminal, and starts before others that nothing is promised to
    idle_s: float | None = (
        None  #: a session ends after so long without input, output or use; None: it does not
    )
    port: int = 0  #: that a session serves on its node; 0: none


class Mount(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A file or folder of a machine in a container; an empty `source` is an empty folder in memory."""

    source: str
    target: str
    is_writable: bool = False


class JobSpec(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, weakref=True
):
    """A request, complete and checked: what ElasticFlow (section 3.1) calls a function."""

    name: str
    entry: str  #: absolute path of a script, or `package.module:function`
    workdir: str  #: absolute path; the script runs there
    global_batch: int  #: 0: that of its script, which its trial run tells
    args: tuple[str, ...] = ()
    end: EndCondition = EndCondition()
    job_class: JobClass = JobClass.BEST_EFFORT
    deadline_s: float | None = None  #: seconds since 1970, UTC
    after_refusal: AfterRefusal = AfterRefusal.END
    accept_until_s: float | None = None  #: as `deadline_s`: a counter-offer that is no later is taken at once
    min_workers: int = 1
    max_workers: int | None = None
    requested_workers: int | None = None  #: what a policy of fixed sizes gives it; None: its smallest number
    devices_per_worker: int = 1
    processes_per_worker: int = 1  #: 1, or one for each of its devices
    elasticity: Elasticity = Elasticity.LIVE
    fixed: FixedTerms | None = None  #: of a fixed job; None: of others
    booking: str = ""  #: id of the booking on whose devices it runs; empty: on those that are not booked
    #: The user's, of the time on one worker: a restart job is planned by it; one with steps until measured.
    estimate_s: float | None = None
    seed: int = 0  #: order of samples
    tenant: str = ""  #: on whose behalf it runs; jobs that name none are together one tenant's
    run_as: str = ""  #: user of the machine whose its processes are; empty: the platform's own account
    stop_on_nan: bool = False  #: end as failed at the first loss that is no number, before its update
    on_drift: DriftAction | None = None  #: None: `heal`
    on_difference: DifferenceAction | None = None  #: None: `hold`
    #: With `max_batch` the batch is open: a policy may give any from `min_batch` (None: `global_batch`) on.
    #: A step of another batch then counts as the steps at `global_batch` that get training as far.
    min_batch: int | None = None
    max_batch: int | None = None
    #: Weak scaling: a step has so many samples for each worker, whatever their number.
    batch_per_worker: int | None = None
    code: str = ""  #: digest of the snapshot (`CodeTree`) that its workers run; empty: the files as they are
    env: tuple[tuple[str, str], ...] = ()  #: environment variables of its workers, Swell's own apart
    secrets: tuple[str, ...] = ()  #: names of further ones, whose values are in `JobInputs` alone
    python: str = ""  #: absolute path of its workers' interpreter; empty: the platform's
    uv: str = ""  #: digest of the requirements in `JobInputs` that are added to its interpreter; empty: none
    image: str = ""  #: of the containers that its workers run in; empty: none
    mounts: tuple[Mount, ...] = ()  #: what its containers see besides
    metric: str = LOSS  #: name of its evaluation function: `loss`, or of a metric that it reports
    metric_rises: bool = False  #: learning raises it, as it does an accuracy
    needs: tuple[str, ...] = ()  #: absolute paths that a host must have to run its workers
    memory_bytes: int | None = None  #: that all its workers together may have on a node; None: no limit
    log_limit_bytes: int | None = None  #: kept of what all its workers print; None: the platform chooses
    #: No more than its smallest number of workers until its script has shown that it works with others.
    grows_when_distributed: bool = False
    kind: str = ""  #: of the devices that it runs on; empty: of the only kind that there is
    #: That its owner named, if several: `kind` is the one that the platform chose, empty until it has.
    kinds: tuple[str, ...] = ()
    webhook: Webhook | None = None  #: what its owner wants to be told, and where
    run_id: str = ""  #: id of the job that it retries or continues, or that this one did; empty: its own
    notify: tuple[Webhook, ...] = ()  #: likewise: services that people read
    after: tuple[str, ...] = ()  #: ids of jobs that must have succeeded before it starts; names in a request
    group: str = ""  #: of jobs that belong together, such as those of a sweep; empty: none
    tags: tuple[str, ...] = ()  #: words of its owner, such as `lr=0.1`
    priority: int = 0  #: of its class the jobs with the highest go first; see `Snapshot.arrival_order`
    #: Workers -> samples a second, as its owner states them: believed in the place of its trial run.
    speed: dict[int, float] = {}
    resize_up_s: float | None = None  #: time that a growth takes from training, as its owner states it
    resize_down_s: float | None = None  #: likewise, of a shrink
    keeps_estimates: bool = False  #: what its owner states counts, also where something else was measured
    checkpoint_interval_s: float | None = None  #: between two checkpoints; None: the platform chooses
    weight: float = 1.0  #: factor of what the job gains, in policies that add up gains
    #: Names of findings of its trial run that its owner accepts: they do not limit it to its smallest size.
    accept_differences: tuple[str, ...] = ()
    hold_after_trial: bool = False  #: it is measured at as many sizes as can be, and then held

    @property
    def least_batch(self) -> int:
        """Smallest batch that a job with an open batch may have, in samples a step."""
        return self.global_batch if self.min_batch is None else self.min_batch

    def completed(self, own: ScriptNumbers | None) -> JobSpec:
        """This request with the script's own batch and end, where it leaves them out."""
        if own is None:
            return self
        end = self.end
        if (end.steps, end.epochs, end.samples) == (None, None, None):
            end = msgspec.structs.replace(end, steps=own.steps, epochs=own.epochs and float(own.epochs))
        return msgspec.structs.replace(self, global_batch=self.global_batch or own.batch, end=end)

    def steps_to_epoch_end(self, samples_per_epoch: int) -> int | None:
        """Steps of an epoch; None if the job ends before its first one does, or its length is not known."""
        if samples_per_epoch <= 0:
            return None
        num_steps = -(-samples_per_epoch // self.global_batch)
        total_steps = self.end.total_steps(self.global_batch, samples_per_epoch)
        return None if total_steps is not None and total_steps < num_steps else num_steps

    @property
    def counts_steps(self) -> bool:
        """Whether its length is known in steps; else a restart job is planned as long as its estimate."""
        return self.elasticity is Elasticity.LIVE or self.end.steps is not None

    @property
    def starts_silently(self) -> bool:
        """Whether all its processes start again at each change, and the first step tells that they train."""
        return self.elasticity is Elasticity.RESTART and self.counts_steps

    @property
    def cuts_batch(self) -> bool:
        """Whether each worker of a restart job is told its part of the batch, which all sizes then divide."""
        return self.elasticity is Elasticity.RESTART and any(LOCAL_BATCH in arg for arg in self.args)

    @property
    def may_change_batch(self) -> bool:
        """Whether a step may have other samples than `global_batch`."""
        return self.max_batch is not None or self.batch_per_worker is not None


#: Between a user's name and their key; a key has no such character.
KEY_OF = "\x1f"


def key_of_user(name: str, key: str) -> str:
    """A key that other users cannot have used; empty for an empty one."""
    return key and f"{name}{KEY_OF}{key}"


class Origin(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a job came to be submitted, apart from what it is to be."""

    #: Idempotency key: a second submission under it is answered with the same job. See `key_of_user`.
    key: str = ""
    fingerprint: str = ""  #: SHA-256 of the request that came with the key
    deadline_in_s: float | None = None  #: of a deadline that was given as `now+...`: counts again for a retry
    continues: str = ""  #: id of the ended job from whose checkpoint it goes on
    steps: int = 0  #: that this checkpoint holds
    retries: str = ""  #: id of the ended job that it is again, from step 0
    user: str = ""  #: who submitted it; empty: the owner of the platform


#: Of a request without a key that begins at step 0.
PLAIN = Origin()


class BatchProfile(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a job at batches that it may have instead of its own."""

    step_s: dict[int, dict[int, float]]  #: global batch -> workers -> seconds a step; absent: not possible
    #: Samples (McCandlish et al. 2018): far below it twice the batch gets training twice as far in a step,
    #: far above it hardly any farther. inf: a sample is worth the same in any batch.
    noise_scale: float = math.inf


#: What a script does between two epochs is waited for so long in a trial run. If it takes longer, the run
#: will show.
MOST_BETWEEN_S = 10.0


class Profile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, weakref=True):
    """What a short trial run measured of one job on one kind of device (ElasticFlow, section 5)."""

    device_kind: str
    compute_s: dict[int, float]  #: samples in a worker's batch -> seconds a step, without all-reduce
    allreduce_s: dict[int, float]  #: workers -> seconds for this job's gradients
    grad_bytes: int
    state_bytes: int
    samples_per_epoch: int
    start_s: float  #: from the fork of a worker to its being ready to join
    max_local_batch: int | None = None  #: samples that fit on a device at once; None: no limit was met
    num_shards: int | None = None  #: parts of a batch that no two workers can share; None: its samples
    batches: BatchProfile | None = None  #: of a job whose batch is open
    #: Time that a growth, or a shrink, takes from training, where that is known beforehand.
    growth_s: float | None = None
    shrink_s: float | None = None
    between: BetweenSteps | None = None  #: at the end of an epoch; None: not measured
    #: From the end condition to the end of the processes, in earlier runs: the script's last lines.
    end_s: float = 0.0
    #: Hosts -> workers -> seconds that the all-reduce takes longer than on one host; empty: not measured.
    crossing_s: dict[int, dict[int, float]] = {}
    #: Workers without a script -> seconds from the first fork until all are in a group; empty: not measured.
    group_launch_s: dict[int, float] = {}
    state_s_per_byte: float | None = None  #: to send a state to a newcomer; None: not measured
    save_s: float | None = None  #: that training should stand still for a checkpoint; None: not measured
    #: Ways in which its result depends on its sizes; None: they were not looked for.
    findings: tuple[ScriptFinding, ...] | None = None
    #: Of `allreduce_s`, numbers of workers that were measured with so many bytes; None: not told.
    allreduce_sizes: tuple[int, ...] | None = None
    group_step_s: dict[int, float] = {}  #: workers -> seconds of a whole step that a group of them made
    own: ScriptNumbers | None = None  #: of the script by itself; None: not told

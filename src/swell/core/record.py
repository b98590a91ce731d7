"""All that the head knows of one job. Policies never see it: they see columns (`table`)."""

from __future__ import annotations

import math
from operator import attrgetter

import msgspec

from swell.checkpoint_interval import interval_s
from swell.core.gang import NO_GANG, Gang, IllegalTransition
from swell.core.progress import HoldTime, JobProgress, ResizeLog, SizeHistory
from swell.core.setbacks import LONGEST_BACK_OFF_S, Backoff, Promise
from swell.model.event import IDLE, STEPS, GangStarted
from swell.model.job import DifferenceAction, Elasticity, JobClass, JobSpec, Phase, Profile
from swell.model.usage import NO_USAGE, GangUsage, total_usage
from swell.model.view import JobView
from swell.script_facts import ScriptFinding

DAY_S = 86400.0
#: Work of a restart job without an estimate, in seconds on one worker.
DEFAULT_ESTIMATE_S = 3600.0

#: Topics of warnings about the processes of a gang, which the next gang's need not share.
OF_GANG = ("checkpoint", "output", STEPS, IDLE)
#: Addresses that its program may tell of a job.
MOST_LINKS = 10
#: Topics that a job has warnings about at once; of others nothing is kept.
MOST_TOPICS = 20


class AskedDeadline(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A deadline that the policy has yet to decide on, in place of the one in the job's specification.

    Times are seconds since 1970, as there.
    """

    deadline_s: float
    accept_until_s: float | None = None  #: a counter-offer that is no later is taken
    #: It is the counter-offer to the job's own request; else its owner asks for a change, and if that is
    #: refused, the job stays as it was.
    is_offer: bool = False


class Admission(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """What became of the job's wish for a promise, and what is agreed upon since it was submitted."""

    job_class: JobClass | None = None  #: None: that of the specification
    deadline_s: float | None = None  #: seconds since 1970; None: that of the specification
    is_decided: bool = False
    is_promised: bool = False
    promise: Promise | None = None  #: as it was made; None: there is none
    counter_offer_s: float | None = None  #: the earliest deadline that could have been promised
    is_unpromised: bool = False  #: its deadline could not be promised, and is tried all the same
    is_void: bool = False  #: its promise was taken back because of its script, and no other one made since
    refusal: str = ""  #: why its owner's latest request was refused, of a job that goes on
    asked: AskedDeadline | None = None


class CommandTimes(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """When the head last said what about the gang."""

    launched_s: float = 0.0
    changed_s: float | None = None  #: since when its size is held; None: it need not be
    asked_s: float = 0.0  #: anything at all
    #: Since when it waits to be launched, because others have yet to leave its devices; None: it does not.
    waits_since_s: float | None = None


class JobStatus(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """What people are told of a job: the head decides nothing by it. Times are head time."""

    started_s: float | None = None
    start_s: float | None = None  #: length of the latest start
    finished_s: float | None = None
    estimated_finish_s: float | None = None
    begins_s: float | None = None  #: when the gang has started, as the estimate expects of one that has not
    pids: tuple[int, ...] = ()  #: of all workers that it has had
    live_pids: tuple[int, ...] = ()
    step_s: float | None = None
    repeated_steps: int = 0
    stepped_s: float | None = None  #: when the gang began to train, or its latest step was told
    batch: int = 0  #: samples of the steps that were told of last; 0: none were
    noise_scale: float | None = None  #: of its gradients, in samples; None: nothing was measured
    loss: float | None = None
    metrics: dict[str, float] = {}
    reason_code: str = "submitted"
    reason: str = "has just been submitted"
    message: str = ""
    warnings: dict[str, str] = {}  #: topic -> what its owner should know for as long as it is so
    links: dict[str, str] = {}  #: addresses by name, which its program has told
    idle_since_s: float | None = None  #: when its owner was told first, of late, of devices that do nothing

    @property
    def stalled_since_s(self) -> float | None:
        """Since when its gang makes no steps; None: it makes some, or has not stood still for long."""
        return self.stepped_s if STEPS in self.warnings else None

    def note_pids(self, pids: tuple[int, ...]) -> None:
        """These are its workers now."""
        self.live_pids = pids
        self.pids += tuple(pid for pid in pids if pid not in self.pids)

    def warn(self, about: str, message: str) -> bool:
        """Set the warning of a topic, or end it with an empty message.

        Returns:
            False: it stands so already, or there are too many topics.
        """
        if self.warnings.get(about, "") == message:
            return False
        if about not in self.warnings and len(self.warnings) >= MOST_TOPICS:
            return False
        kept = {topic: text for topic, text in self.warnings.items() if topic != about}
        self.warnings = {**kept, about: message} if message else kept
        return True

    def end_warnings_of_gang(self) -> None:
        """Its processes are new: they warn again if the cause lasts."""
        self.idle_since_s = None
        self.warnings = {topic: text for topic, text in self.warnings.items() if topic not in OF_GANG}


class JobUsage(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """What a job has learnt, and what its gangs have used for that, as reports say. Times are head time."""

    latest: GangUsage | None = None  #: of the gang that there is, or was last
    before_cpu_s: float = 0.0  #: used by the gangs before that one
    before: GangUsage = NO_USAGE  #: all else that they used
    used: tuple[tuple[float, float], ...] = ()  #: as in `JobView`
    value: float | None = None  #: of its evaluation function, as last reported; None: none, or not finite
    value_s: float | None = None  #: when that was

    @property
    def cpu_s(self) -> float | None:
        """CPU time of all its gangs; None: not measured."""
        return None if self.latest is None else self.before_cpu_s + self.latest.cpu_s

    @property
    def total(self) -> GangUsage:
        """What all its gangs have used, but for CPU time."""
        return self.before if self.latest is None else total_usage([self.before, self.latest])

    def begin_gang(self) -> None:
        """The next gang counts from 0."""
        if self.latest is not None:
            self.before_cpu_s += self.latest.cpu_s
            ended = msgspec.structs.replace(self.latest.without_memory, cpu_s=0.0)
            self.before = total_usage([self.before, ended])
            self.latest = NO_USAGE

    def note(self, at_s: float, value: float | None, usage: GangUsage | None) -> None:
        """A report of its gang."""
        if usage is not None:
            self.latest = usage
        if usage is not None and (used_s := self.total.used_s) is not None:
            is_of_day = len(self.used) > 1 and at_s < self.used[-2][0] + DAY_S
            self.used = (*(self.used[:-1] if is_of_day else self.used), (at_s, used_s))
        if value is not None:
            self.value, self.value_s = (value if math.isfinite(value) else None), at_s


class JobRecord(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """Mutable, owned by the core, and a plain value: it travels to the journal's folds as JSON.

    It and its parts never refer to themselves, so Python need not look for that (`gc=False`).
    """

    id: str
    spec: JobSpec
    submitted_s: float
    calendar_offset_s: float = 0.0  #: calendar less head time: see `Calendar`
    tenant: int = 0  #: see `TenantTable`
    account_number: int = 0  #: see `AccountTable`
    continues: str = ""  #: see `Origin`, as `user`
    user: str = ""
    profile: Profile | None = None
    unlike_script: tuple[ScriptFinding, ...] = ()  #: jobs share a profile, and may differ in this
    is_profiling: bool = False
    trial_waited_s: float = 0.0  #: that its trial run has waited, as was told last
    trial_behind: tuple[str, ...] = ()  #: for those of these jobs, the last time
    differences: tuple[ScriptFinding, ...] = ()  #: of steps that were computed again while it trained
    verified_steps: int | None = None  #: up to here a fresh worker has computed the same; None: none has
    unverified: str = ""  #: why the latest one has computed nothing; empty: it has
    rolls_back: bool = False  #: its next gang begins at the checkpoint of these steps
    awaits_speed: bool = False  #: what is asked for is decided on once steps of it were measured
    is_distributed: bool = False  #: its script has shown that it works with other workers
    accepted: tuple[str, ...] = ()  #: findings, since it was submitted
    is_cancelled: bool = False  #: by its owner; its gang may still be there
    is_held: bool = False  #: its owner wants it to have no gang; it may have one still
    awaits: tuple[str, ...] = ()  #: ids of the jobs that it follows, until all of them have succeeded
    ruled_out: dict[str, str] = {}  #: names of nodes that cannot run it, and why
    booking: str = ""  #: id of the booking that it waits for, or runs in; empty: of none
    begun_s: float | None = None  #: since when the time of a fixed job counts; None: its command does not run
    num_retries: int = 0  #: starts of a fixed job that followed a loss, or that others had its devices
    is_overdue: bool = False  #: its limit has passed, and its processes are still there
    ended: Phase | None = None  #: how; None: it has not

    gang: Gang = NO_GANG
    generation: int = 0  #: of the latest command about the gang; the gang has that of its members
    commanded: CommandTimes = msgspec.field(default_factory=CommandTimes)
    progress: JobProgress = msgspec.field(default_factory=JobProgress)
    backoff: Backoff = msgspec.field(default_factory=Backoff)
    num_nodes: int = 1  #: that its gang was on when it was last changed
    save_s: float | None = None  #: that training stood still for a checkpoint, lately; None: not measured
    resizes: ResizeLog = msgspec.field(default_factory=ResizeLog)
    tenure: HoldTime = msgspec.field(default_factory=HoldTime)
    sizes: SizeHistory = msgspec.field(default_factory=SizeHistory)
    admission: Admission = msgspec.field(default_factory=Admission)
    status: JobStatus = msgspec.field(default_factory=JobStatus)
    usage: JobUsage = msgspec.field(default_factory=JobUsage)

    @property
    def account(self) -> str:
        """Name of the account that its device time counts for."""
        return self.spec.tenant or self.user

    @property
    def alone_s(self) -> float | None:
        """Time of all its steps on one worker: as its trial run measured a step.

        Steps of a restart job are not known: that is the time that it has trained, if it has never had more.
        """
        if self.spec.elasticity is Elasticity.RESTART:
            is_known = self.ended is Phase.SUCCEEDED and self.sizes.most_workers == 1
            return self.tenure.total_s if is_known else None
        step_s = self.profile.compute_s.get(self.spec.global_batch) if self.profile else None
        total_steps = self.progress.total_steps
        return None if step_s is None or total_steps is None else step_s * total_steps

    @property
    def estimate_s(self) -> float:
        """Time on one worker that a restart job is planned by."""
        return self.spec.estimate_s or DEFAULT_ESTIMATE_S

    @property
    def told_trials(self) -> str:
        """`the trial runs of a, b, c and 5 more`: those for which its own has waited."""
        named, num = ", ".join(self.trial_behind[:3]), len(self.trial_behind)
        return f"the trial run{'s' if num > 1 else ''} of {named}{f' and {num - 3} more' if num > 3 else ''}"

    @property
    def phase(self) -> Phase:
        return self.gang.phase if self.ended is None else self.ended

    @property
    def job_class(self) -> JobClass:
        """Class of the job: as it was submitted, or as it was changed since."""
        return self.admission.job_class or self.spec.job_class

    @property
    def agreed_deadline_s(self) -> float | None:
        """Deadline in seconds since 1970 by the calendar, as submitted or changed since; None: none."""
        agreed_s = self.admission.deadline_s
        return self.spec.deadline_s if agreed_s is None else agreed_s

    @property
    def deadline_s(self) -> float | None:
        """Deadline in head time, like every other time here; None: none."""
        return self._head_time(self.agreed_deadline_s)

    @property
    def asked_deadline_s(self) -> float | None:
        """The one that is asked for in its place."""
        asked = self.admission.asked
        return None if asked is None else self._head_time(asked.deadline_s)

    def _head_time(self, calendar_s: float | None) -> float | None:
        return None if calendar_s is None else calendar_s - self.calendar_offset_s

    @property
    def planned_deadline_s(self) -> float | None:
        """The deadline that a policy sees: the one that it is to decide on, if there is one."""
        return self.asked_deadline_s if self.is_asking else self.deadline_s

    @property
    def planned_class(self) -> JobClass:
        """The class that a policy sees: who asks for a deadline asks for a promise."""
        return JobClass.STRICT if self.is_asking else self.job_class

    @property
    def is_asking(self) -> bool:
        """Another deadline than it has is to be decided on now."""
        return self.admission.asked is not None and not self.awaits_speed

    @property
    def is_undecided(self) -> bool:
        """A policy is to promise or to refuse its deadline."""
        return self.is_asking or (self.planned_class is JobClass.STRICT and not self.admission.is_decided)

    @property
    def num_workers(self) -> int:
        """Workers that train now."""
        return len(self.gang.members.devices) // self.spec.devices_per_worker

    @property
    def target_workers(self) -> int:
        """Workers once the change under way is done."""
        return len(self.gang.goal.devices) // self.spec.devices_per_worker

    @property
    def global_batch(self) -> int:
        """Samples of a step that its gang trains with."""
        return self.gang.members.configuration.global_batch or self.spec.global_batch

    @property
    def wanted_batch(self) -> int:
        """Samples of a step once the change under way is done."""
        return self.gang.goal.configuration.global_batch or self.spec.global_batch

    @property
    def known_total(self) -> int | None:
        """Steps until its end; None for a script that ends by itself."""
        total_steps = self.progress.total_steps
        return int(total_steps) if self.spec.counts_steps and total_steps is not None else None

    @property
    def checkpoint_interval_s(self) -> float | None:
        """Training between two checkpoints, named by the job or chosen; None: fixed by the platform."""
        named_s, mean_s = self.spec.checkpoint_interval_s, self.gang.goal.mean_time_to_loss_s
        save_s = self.save_s
        if save_s is None and self.profile is not None:
            save_s = self.profile.save_s
        if named_s is None and (mean_s is None or save_s is None):
            return None  # what a checkpoint takes is known with the first one
        return interval_s(named_s, mean_s, save_s)

    @property
    def max_local_batch(self) -> int | None:
        """Samples that fit on a device at once; None if no limit is known."""
        return self.profile.max_local_batch if self.profile else None

    @property
    def is_set_aside(self) -> bool:
        """It is to have no gang for now, as its owner asked."""
        return self.is_held or bool(self.awaits)

    @property
    def is_plannable(self) -> bool:
        """Known well enough for a policy to decide about, and still of interest to one."""
        is_wanted = self.ended is None and not (self.is_cancelled or self.is_set_aside or self.booking)
        return is_wanted and self.progress.total_steps is not None

    @property
    def is_apart(self) -> bool:
        """Its devices are not a policy's to give: it is a fixed job, or of a booking."""
        return self.spec.fixed is not None or bool(self.booking)

    @property
    def is_suspendable(self) -> bool:
        """Whether others may have the devices of this fixed job, be it those who lend the node."""
        fixed = self.spec.fixed
        is_open = fixed is not None and fixed.may_suspend and self.num_retries < fixed.retries
        return is_open and not self.admission.is_promised

    @property
    def may_grow(self) -> bool:
        """Whether more workers than its smallest number would be of use, and learn the same."""
        if self.awaits_speed and self.target_workers <= self.spec.min_workers:
            return False  # this size is measured first: a promise counts on it
        return (self.is_distributed or not self.spec.grows_when_distributed) and not self.held_by

    @property
    def must_shrink(self) -> bool:
        """Whether it has more workers than its findings let it have."""
        return bool(self.held_by) and self.target_workers > self.spec.min_workers

    @property
    def findings(self) -> tuple[ScriptFinding, ...]:
        """Ways in which its result depends on its sizes, as far as is known, and what its script has else."""
        return ((self.profile and self.profile.findings) or ()) + self.unlike_script + self.differences

    @property
    def held_by(self) -> tuple[str, ...]:
        """Names of findings that limit it to its smallest number of workers."""
        accepted = self.spec.accept_differences + self.accepted
        names = (found.name for found in self.findings if found.holds and found.name not in accepted)
        return tuple(dict.fromkeys(names))

    @property
    def is_to_roll_back(self) -> bool:
        """Whether its owner wants it to, where a new process computes something else."""
        return self.spec.on_difference is DifferenceAction.ROLL_BACK

    @property
    def known_findings(self) -> tuple[str, ...]:
        """Names of all findings that are told or accepted: what they mean for its size is decided."""
        accepted = self.spec.accept_differences + self.accepted
        return tuple(dict.fromkeys([*accepted, *(found.name for found in self.findings)]))

    def has_lasted(self, at_s: float) -> bool:
        """A restart job reports no steps; that its gang was up for a while has to do for progress."""
        is_silent = self.spec.elasticity is Elasticity.RESTART
        is_long = at_s - self.commanded.launched_s > LONGEST_BACK_OFF_S
        return is_silent and is_long and not self.gang.is_launching

    def is_content(self, at_s: float) -> bool:
        """It trains, and a change that failed could have been asked for again and was not."""
        until_s = max(self.backoff.until_s, self.backoff.share_until_s)
        return not self.gang.is_pinned and at_s > until_s

    def hold(self) -> None:
        """It is to have no gang until it is resumed. No promise stands meanwhile."""
        self.is_held = True
        self.backoff.end_wait()
        self.ask_again()

    def ask_when_measured(self) -> None:
        """It has no trial run: it is soft until its first steps have shown how fast it is."""
        deadline_s, accept_until_s = self.spec.deadline_s, self.spec.accept_until_s
        if deadline_s is not None:
            asked = AskedDeadline(deadline_s=deadline_s, accept_until_s=accept_until_s, is_offer=True)
            self.admission.job_class, self.admission.asked, self.awaits_speed = JobClass.SOFT, asked, True

    def ask_again(self) -> None:
        """Ask once more for a deadline that was promised. Until it is decided on, and if refused, it is soft.

        Of a job that is held it is decided on when that is resumed.
        """
        admission, deadline_s = self.admission, self.agreed_deadline_s
        if not admission.is_promised or deadline_s is None:
            return
        if admission.asked is None:
            admission.asked = AskedDeadline(deadline_s=deadline_s, accept_until_s=self.spec.accept_until_s)
        admission.job_class, admission.is_promised, admission.promise = JobClass.SOFT, False, None
        admission.refusal, admission.counter_offer_s = "", None

    def accept(self, promise: Promise | None) -> None:
        """Its deadline is promised, or let in by a policy that makes no promises; or the one asked for is."""
        admission = self.admission
        if admission.asked is not None:
            admission.job_class, admission.deadline_s = JobClass.STRICT, admission.asked.deadline_s
        admission.asked, admission.is_unpromised, admission.is_void = None, False, False
        admission.is_decided, admission.is_promised, admission.promise = True, promise is not None, promise

    def become(self, gang: Gang) -> None:
        """The gang is this from now on."""
        self.gang = gang
        if not gang.members.devices:
            self.status.live_pids, self.begun_s, self.is_overdue = (), None, False

    def end(self, phase: Phase) -> None:
        """The job is over, and has no gang. Raises IllegalTransition: that is a defect of the head."""
        if self.ended is not None or (phase is Phase.REJECTED and self.phase is not Phase.QUEUED):
            story = f"{self.status.reason_code}: {self.status.reason}; {self.sizes.changes}"
            raise IllegalTransition(
                f"job {self.id!r} cannot go from {self.phase} to {phase}; its story: {story}"
            )
        self.ended = phase
        self.become(NO_GANG)

    def learn_length(self, profile: Profile | None) -> None:
        """Fix the amount of work: steps, or seconds on one worker where steps are unknown."""
        self.profile = profile
        if self.spec.elasticity is Elasticity.RESTART:
            self.progress.total_steps = float(self.spec.end.steps or self.estimate_s)
            return
        self.spec = self.spec.completed(profile.own if profile else None)
        samples = profile.samples_per_epoch if profile else None
        total_steps = self.spec.end.total_steps(self.spec.global_batch, samples)
        self.progress.total_steps = None if total_steps is None else float(total_steps)
        own = profile and profile.own
        self.unlike_script = own.unlike(self.spec.global_batch, total_steps) if own and total_steps else ()

    def advance(self, at_s: float) -> None:
        """Account for what has happened by then, at the rate believed since it was last advanced."""
        elapsed_s = self.progress.advance(at_s, len(self.gang.held))
        if self.gang.members.devices and self.spec.fixed is None:
            self.tenure.train(elapsed_s)

    def start(self, event: GangStarted, num_nodes: int) -> None:
        """The processes of its gang are up."""
        self.advance(event.at_s)
        self.become(self.gang.started(event.generation))
        self.num_nodes = num_nodes
        self.usage.begin_gang()
        self.backoff.go_on()
        self.status.started_s = event.at_s if self.status.started_s is None else self.status.started_s
        self.status.note_pids(event.pids)
        self.sizes.note(event.at_s, self.num_workers)

    def release(self, at_s: float) -> None:
        """Its processes are gone, and it makes no progress. What becomes of the job is said next."""
        self.advance(at_s)
        self.resizes.lose(at_s)
        self.backoff.num_failed_changes = self.backoff.num_refused_shares = 0
        self.backoff.share_until_s = 0.0
        self.progress.rate_per_s = 0.0
        self.progress.resume()
        self.sizes.note(at_s, 0)

    def view(self) -> JobView:
        gang, is_over, used, latest = self.gang, self.ended is not None, self.usage.total, self.usage.latest
        shown = dict(zip(SHOWN, shown_of(self), strict=True))
        if is_over or self.is_set_aside:
            shown["estimated_finish_s"] = None
        if is_over:
            shown |= {"is_held": False, "awaits": (), "checkpoint_interval_s": None}
            shown |= {"stalled_since_s": None, "idle_since_s": None}
        return JobView(
            **shown,
            batch=self._shown_batch(),
            kept=self._kept(),
            workers=self.num_workers,
            devices=gang.held,
            generation=gang.generation if gang.members.devices else self.generation,
            sizes=self.sizes.changes,
            resizes=self.resizes.num_done,
            resize_pause_s=self.resizes.pause_s,
            resize_saved_s=self.resizes.total_saved_s,
            resize_history=self.resizes.told(self.progress.as_of_s),
            steps=self._shown_steps(),
            total_steps=self.known_total,
            mean_time_to_loss_s=gang.goal.mean_time_to_loss_s,
            share=gang.members.configuration.share,
            cpu_s=self.usage.cpu_s,
            memory_used_bytes=latest.memory_bytes if latest and gang.held else None,
            read_bytes=used.read_bytes,
            written_bytes=used.written_bytes,
            used=self.usage.used,
            retry_s=(self.backoff.until_s or None)
            if self.phase is Phase.QUEUED and self.backoff.cause
            else None,
            message=self.backoff.cause or self.status.message,
            webhook=self.spec.webhook is not None or bool(self.spec.notify),
        )

    def _kept(self) -> bool | None:
        finished_s = self.status.finished_s
        is_called_off = self.ended in (Phase.REJECTED, Phase.CANCELLED)
        if self.deadline_s is None or finished_s is None or is_called_off:
            return None
        return self.ended in (Phase.SUCCEEDED, Phase.TIMED_OUT) and finished_s <= self.deadline_s

    def _shown_batch(self) -> int:
        """Samples of a step now, or once it starts; of a job that has ended, of its last ones."""
        if self.ended is not None and self.status.batch:
            return self.status.batch
        return self.global_batch if self.gang.members.devices else self.wanted_batch

    def _shown_steps(self) -> int:
        """Work that is counted in seconds has steps that are only for people.

        A gang of which nothing is heard is believed to go on. It has no more to do than that.
        """
        if self.spec.counts_steps:
            return int(min(self.progress.done_steps, self.known_total or math.inf))
        reported = self.progress.reported
        return 0 if reported is None else reported.steps


#: Fields of a view that `JobRecord.view` works out, and the kind, which a platform adds.
WORKED_OUT = frozenset(
    ["batch", "workers", "devices", "generation", "sizes", "resizes", "steps", "message", "webhook", "kind"]
)
#: What was submitted, and may have changed since.
CHANGEABLE = {"job_class", "deadline_s", "checkpoint_interval_s", "booking"}


def _shown_paths() -> dict[str, str]:
    """Where a record has each other field of a view, under the same name: it, its request or a part."""
    parts = {"spec.": JobSpec, "": JobRecord, "status.": JobStatus, "admission.": Admission}
    found = {
        name: at + name
        for at, part in reversed(parts.items())
        for name in JobView.__struct_fields__
        if hasattr(part, name) and not (part is JobSpec and name in CHANGEABLE)
    }
    return {name: path for name, path in found.items() if name not in WORKED_OUT}


SHOWN = _shown_paths()
shown_of = attrgetter(*SHOWN.values())

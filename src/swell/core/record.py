"""All that the head knows of one job. Policies never see it: they see columns (`table`)."""

from __future__ import annotations

import math

import msgspec

from swell.core.hold_time import Tenure
from swell.core.phases import check_transition
from swell.core.resizes import NUM_MEASURED, ResizeLog
from swell.model.job import Elasticity, JobSpec, Phase, Profile
from swell.model.target import PLAIN_CONFIGURATION, Configuration, Target
from swell.model.view import JobView

#: Work of a restart job without an estimate, in seconds on one worker.
DEFAULT_ESTIMATE_S = 3600.0

#: Topics of warnings about the processes of a gang, which the next gang's need not share.
OF_GANG = ("checkpoint", "output")


class LastReport(msgspec.Struct, frozen=True, kw_only=True):
    """What counts of a progress report of a gang."""

    at_s: float
    steps: int
    generation: int
    num_workers: int

    def is_of_gang(self, other: LastReport) -> bool:
        """Whether both are of the same workers."""
        return (self.generation, self.num_workers) == (other.generation, other.num_workers)


class JobRecord(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Mutable, owned by the core, and a plain value: it travels to the journal's folds as JSON."""

    id: str
    spec: JobSpec
    submitted_s: float
    calendar_offset_s: float = 0.0  #: calendar less head time: see `Calendar`
    tenant: int = 0  #: see `Tenants`
    continues: str = ""  #: see `Origin`
    phase: Phase = Phase.QUEUED
    profile: Profile | None = None
    is_profiling: bool = False

    # progress, advanced lazily: done_steps were finished at as_of_s, rate_per_s since
    total_steps: float | None = None
    done_steps: float = 0.0
    as_of_s: float = 0.0
    reported: LastReport | None = None
    first_reported: LastReport | None = None  #: of the gang that made the report above, at its size
    rate_per_s: float = 0.0
    attained_device_s: float = 0.0

    # the gang: `gang` trains as generation `formed`; while a change is under way `target` is what
    # generation `generation` is to have, and the job holds the devices of both
    generation: int = 0
    formed: int = 0
    gang: tuple[str, ...] = ()
    target: tuple[str, ...] = ()
    is_changing: bool = False
    is_broken: bool = False  #: workers were lost and the others wait for the next generation
    losses: tuple[tuple[int, tuple[str, ...]], ...] = ()  #: (generation, devices) since `formed`
    is_saving: bool = False  #: STOPPING with a checkpoint; else it is only to end
    is_cancelled: bool = False
    is_distributed: bool = False  #: its script has shown that it works with other workers
    first_step: int = 0  #: that the gang began to train with
    launched_s: float = 0.0
    changed_s: float | None = None
    asked_s: float = 0.0  #: when the latest command about the gang was given
    held_back_until_s: float = 0.0  #: after a failure: no new change before
    num_setbacks: int = 0  #: losses in a row: of the gang without a finished step, or of the trial run
    num_failed_changes: int = 0  #: resizes and suspends in a row that the gang could not do

    configuration: Configuration = PLAIN_CONFIGURATION  #: of `gang`
    target_configuration: Configuration = PLAIN_CONFIGURATION  #: of `target`

    # what changes of the gang cost and bring
    num_resizes: int = 0
    resize_pause_s: float = 0.0
    pauses: tuple[float, ...] = ()  #: time that the latest planned changes took from training
    resizes: ResizeLog = msgspec.field(default_factory=ResizeLog)
    tenure: Tenure = msgspec.field(default_factory=Tenure)

    # the promise
    is_promised: bool = False
    is_decided: bool = False
    counter_offer_s: float | None = None

    # for people
    started_s: float | None = None
    finished_s: float | None = None
    estimated_finish_s: float | None = None
    sizes: tuple[tuple[float, int], ...] = ()
    most_workers: int = 0  #: of `sizes`
    num_changes: int = 0  #: of `sizes`, to another number of workers, since the first
    pids: tuple[int, ...] = ()
    live_pids: tuple[int, ...] = ()
    step_s: float | None = None
    loss: float | None = None
    metrics: dict[str, float] = {}
    reason_code: str = "submitted"
    reason: str = "has just been submitted"
    message: str = ""
    setback: str = ""  #: why its gang or trial run was lost or could not change, until it goes on
    warnings: dict[str, str] = {}  #: topic -> what its owner should know for as long as it is so

    @property
    def deadline_s(self) -> float | None:
        """In head time, as every other time here; that of the spec is a time of day."""
        deadline_s = self.spec.deadline_s
        return None if deadline_s is None else deadline_s - self.calendar_offset_s

    @property
    def held(self) -> tuple[str, ...]:
        """Devices that nobody else may have now."""
        if not self.phase.holds_devices:
            return ()
        if self.gang == self.target:
            return self.gang
        now = set(self.gang)
        return self.gang + tuple(device for device in self.target if device not in now)

    @property
    def num_workers(self) -> int:
        """Workers that train now."""
        return len(self.gang) // self.spec.devices_per_worker

    @property
    def target_workers(self) -> int:
        """Workers once the change under way is done."""
        return len(self.target) // self.spec.devices_per_worker if self.phase.holds_devices else 0

    @property
    def is_forming(self) -> bool:
        """The launch of the whole gang is under way: no generation of it trains yet."""
        return self.is_changing and not self.gang

    @property
    def is_ending(self) -> bool:
        """It has been told to end its processes, and to save nothing."""
        return self.phase is Phase.STOPPING and not self.is_saving

    @property
    def is_leaving(self) -> bool:
        """It was told to give up devices, or to say what is left of it, and has not answered."""
        if self.phase is Phase.STOPPING:
            return self.is_saving
        if self.phase is not Phase.RUNNING or not self.is_changing:
            return False
        return not (set(self.gang) < set(self.target) or self.is_changing_configuration)

    @property
    def is_changing_configuration(self) -> bool:
        """The same members are to go on in another way, and that is all."""
        is_other = self.configuration != self.target_configuration
        return self.is_changing and is_other and set(self.gang) == set(self.target) and not self.losses

    @property
    def own_pause_s(self) -> float:
        """Mean of its own latest pauses; NaN before the first."""
        return sum(self.pauses) / len(self.pauses) if self.pauses else math.nan

    @property
    def most_pause_s(self) -> float:
        """The longest of its own latest pauses; NaN before the first."""
        return max(self.pauses, default=math.nan)

    @property
    def known_total(self) -> int | None:
        """Steps until its end; None for a script that ends by itself."""
        is_counted = self.spec.elasticity is Elasticity.LIVE and self.total_steps is not None
        return int(self.total_steps) if is_counted and self.total_steps is not None else None

    @property
    def max_local_batch(self) -> int | None:
        """Samples that fit on a device at once; None if no limit is known."""
        return self.profile.max_local_batch if self.profile else None

    @property
    def is_plannable(self) -> bool:
        """Known well enough for a policy to decide about, and still of interest to one."""
        return not self.phase.is_end and not self.is_cancelled and self.total_steps is not None

    @property
    def may_grow(self) -> bool:
        """Whether more workers than its smallest number would be of use."""
        return self.is_distributed or not self.spec.grows_when_distributed

    @property
    def is_pinned(self) -> bool:
        """Something is under way that must end before the gang can change again."""
        return self.phase in (Phase.STARTING, Phase.STOPPING) or self.is_changing or self.is_broken

    def move(self, phase: Phase) -> None:
        check_transition(self.id, self.phase, phase, self._story)
        self.phase = phase

    def _story(self) -> str:
        return f"{self.reason_code}: {self.reason}; {self.sizes}"

    def learn_length(self, profile: Profile | None) -> None:
        """Fix the amount of work: steps, or seconds on one worker where steps are unknown."""
        self.profile = profile
        if self.spec.elasticity is Elasticity.RESTART:
            self.total_steps = float(self.spec.estimate_s or DEFAULT_ESTIMATE_S)
            return
        samples = profile.samples_per_epoch if profile else None
        total_steps = self.spec.end.total_steps(self.spec.global_batch, samples)
        self.total_steps = None if total_steps is None else float(total_steps)

    def advance(self, at_s: float) -> None:
        """Account for what has happened since `as_of_s`, at the rate believed since then."""
        elapsed_s = max(0.0, at_s - self.as_of_s)
        self.done_steps += elapsed_s * self.rate_per_s
        self.attained_device_s += elapsed_s * len(self.held)
        if self.gang:
            self.tenure.train(elapsed_s)
        self.as_of_s = max(self.as_of_s, at_s)

    def note_size(self, at_s: float, num_workers: int) -> None:
        if not self.sizes or self.sizes[-1][1] != num_workers:
            self.num_changes += bool(self.sizes) and num_workers > 0
            self.most_workers = max(self.most_workers, num_workers)
            self.sizes += ((at_s, num_workers),)

    def note_pids(self, pids: tuple[int, ...]) -> None:
        """These are its workers now."""
        self.live_pids = pids
        self.pids += tuple(pid for pid in pids if pid not in self.pids)

    def warn(self, about: str, message: str) -> bool:
        """Set the warning of a topic, or end it with an empty message. False if it stands so already."""
        if self.warnings.get(about, "") == message:
            return False
        kept = {topic: text for topic, text in self.warnings.items() if topic != about}
        self.warnings = {**kept, about: message} if message else kept
        return True

    def end_warnings_of_gang(self) -> None:
        """Its processes are new: they warn again if the cause lasts."""
        self.warnings = {topic: text for topic, text in self.warnings.items() if topic not in OF_GANG}

    def note_pause(self, pause_s: float) -> None:
        """A planned change took so long from training."""
        self.pauses = (*self.pauses, pause_s)[-NUM_MEASURED:]

    def form(self, generation: int) -> None:
        """Every worker of this generation is in its group."""
        self.formed, self.losses = generation, ()

    @property
    def goal(self) -> Target:
        """What the gang is, or what it is to be once the change under way is done."""
        return Target(devices=self.target, configuration=self.target_configuration)

    @goal.setter
    def goal(self, goal: Target) -> None:
        self.target, self.target_configuration = goal.devices, goal.configuration

    @property
    def global_batch(self) -> int:
        """Samples of a step that its gang trains with."""
        return self.configuration.global_batch or self.spec.global_batch

    def settle(self, goal: Target) -> None:
        """The gang is this and nothing is under way."""
        self.goal, self.gang, self.configuration = goal, goal.devices, goal.configuration
        self.is_changing = self.is_broken = False
        if not self.gang:
            self.live_pids = ()

    def view(self) -> JobView:
        spec = self.spec
        return JobView(
            id=self.id,
            name=spec.name,
            tenant=spec.tenant,
            job_class=spec.job_class,
            phase=self.phase,
            entry=spec.entry,
            args=spec.args,
            global_batch=spec.global_batch,
            min_workers=spec.min_workers,
            max_workers=spec.max_workers,
            devices_per_worker=spec.devices_per_worker,
            elasticity=spec.elasticity,
            submitted_s=self.submitted_s,
            deadline_s=self.deadline_s,
            is_promised=self.is_promised,
            counter_offer_s=self.counter_offer_s,
            started_s=self.started_s,
            finished_s=self.finished_s,
            estimated_finish_s=None if self.phase.is_end else self.estimated_finish_s,
            kept=self._kept(),
            workers=self.num_workers if self.phase.holds_devices else 0,
            devices=self.held,
            generation=self.formed if self.gang else self.generation,
            sizes=self.sizes,
            pids=self.pids,
            live_pids=self.live_pids,
            resizes=self.num_resizes,
            resize_pause_s=self.resize_pause_s,
            resize_saved_s=self.resizes.total_saved_s,
            resize_history=self.resizes.told(self.as_of_s),
            steps=self._shown_steps(),
            total_steps=self.known_total,
            step_s=self.step_s,
            loss=self.loss,
            metrics=self.metrics,
            reason_code=self.reason_code,
            reason=self.reason,
            message=self.setback or self.message,
            warnings=self.warnings,
            code=spec.code,
            continues=self.continues,
        )

    def _kept(self) -> bool | None:
        is_called_off = self.phase in (Phase.REJECTED, Phase.CANCELLED)
        if self.deadline_s is None or self.finished_s is None or is_called_off:
            return None
        return self.phase is Phase.SUCCEEDED and self.finished_s <= self.deadline_s

    def _shown_steps(self) -> int:
        """A restart job's work is counted in seconds; its script's steps are only for people."""
        if self.spec.elasticity is Elasticity.LIVE:
            return int(self.done_steps)
        return 0 if self.reported is None else self.reported.steps

"""A gang as one value: what its controller knows.

Its hosts keep a part of it for the next controller, `KnownGang`; what they know of its workers
(`host_messages`) tells that the rest.
"""

from __future__ import annotations

import copy
import signal
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto

import msgspec

from swell.executors.exit_status import HOST_LOST, NOT_STARTED, OUT_OF_MEMORY, OVER_MEMORY, STOPPED, UNFIT
from swell.executors.gang.job_context import GangSettings
from swell.model.event import AnyEvent, Outcome, WorkersLost
from swell.model.failure import LOG_ENDS
from swell.model.gang_state import GangState, next_state
from swell.model.quantities import span
from swell.model.target import PLAIN_CONFIGURATION, Configuration
from swell.wire.environ import EXIT_STOPPED
from swell.wire.messages import Alive, Finished, Stepped

# ---------------------------------------------------------------- its workers
Slot = tuple[str, ...]  #: the devices of one worker
#: A joiner that has called it, and reads a stream up to where the others are, has so many times `ready_s`.
READING_SHARE = 10.0


class AnswerLog(msgspec.Struct, kw_only=True):
    """What the head has asked of a gang and was told: a command that comes again is answered again."""

    generation: int = 0  #: of the latest command
    asked: tuple[str, int] | None = None  #: the name of the latest command's kind, and its generation
    answer: AnyEvent | None = None  #: to the latest command
    losses: list[WorkersLost] = []  #: told since the head was last known to have heard of one


class Setback(msgspec.Struct, kw_only=True):
    """The latest break of a gang's group: open from its first word until the next group is told to form."""

    why: str = ""
    since_s: float | None = None  #: None: the group is whole
    has_lost: bool = False  #: a member of the group is gone, so it cannot just form again
    is_of_death: bool = False  #: `why` tells of a worker that died
    is_over_memory: bool = False  #: one of those that died was killed for its job's memory limit
    is_cut_back: bool = False  #: since the latest loss
    num_failed_rounds: int = 0

    @property
    def is_open(self) -> bool:
        return self.since_s is not None

    def note_break(self, why: str, now_s: float) -> None:
        """A collective failed. The first word of it counts."""
        if self.since_s is None:
            self.since_s, self.why, self.is_cut_back = now_s, why, False
            self.is_over_memory = False

    def note_death(self, why: str, now_s: float) -> None:
        """A member is gone: what its peers said when their collective failed is no more than an echo.

        Of one that was sent away because of that, its death (`why` is empty) is the echo.
        """
        self.note_break(why, now_s)
        if why and not self.is_of_death:
            self.why, self.is_of_death = why, True
        self.has_lost, self.is_cut_back = True, False


class GangEnd(msgspec.Struct, kw_only=True):
    """Why all processes of a gang are to go, and until when they may by themselves."""

    outcome: Outcome
    message: str
    since_s: float
    kill_at_s: float
    #: "worker 3 left its training loop", before the end condition was met: a failure if others go on.
    left_by: str = ""
    after_steps: int | None = None  #: it left after so many; None: not known


class Formation(msgspec.Struct, kw_only=True):
    """The latest round: which workers were told to be a group. Rounds are the wire's generations."""

    round: int = 0
    configuration: Configuration = PLAIN_CONFIGURATION  #: of the group
    group: list[int] = []  #: worker numbers by rank; some may have died since
    is_saving: bool = False  #: it was told to save and then to leave
    has_left: bool = False  #: one of its workers has left after that, so all agreed that it is saved
    ordered_s: float = 0.0  #: when the latest order was given
    is_lateness_told: bool = False  #: of that order


class StepTally(msgspec.Struct, kw_only=True):
    """Steps of a gang through its restarts, by what rank 0's optimizer did.

    An optimizer that counts its own steps (Adam and its kin) finds its count in the script's checkpoint, and
    `swell.train.report_progress` says one. Of another one only the steps since the start are known: those
    that are done again count twice.
    """

    steps: int = 0  #: at first, those of the gangs before
    begun_with: int = 0  #: what `steps` was when the present gang began
    is_new: bool = True  #: the present gang has not made a step

    @property
    def num_before(self) -> int:
        """Steps that were finished when the present gang began."""
        return self.steps if self.is_new else self.begun_with

    def restart(self) -> None:
        """A new gang starts."""
        self.is_new = True

    def note_step(self, message: Stepped) -> tuple[int | None, str]:
        """Take in a step.

        Returns:
            Steps in the checkpoint from which the script went on, None if they are not known; and a warning
            with the first step of a gang that has found none.
        """
        found, warning = None if message.own_steps is None else max(0, message.own_steps - message.steps), ""
        if self.is_new:
            warning = _began_again(self.steps) if self.steps and found == 0 else ""
            self.begun_with, self.is_new = self.steps, False
        self.steps = self.begun_with + message.steps if message.own_steps is None else message.own_steps
        return found, warning


def _began_again(steps: int) -> str:
    return (
        f"the script was stopped after step {steps} and began again: it found no checkpoint; let it save "
        "more often, and continue from its newest checkpoint when it starts"
    )


class RestartSet(msgspec.Struct, kw_only=True):
    """The set of processes that was started last, and how far the next one is."""

    slots: tuple[Slot, ...] = ()  #: that it was started on, in rank order
    num_starts: int = 0
    leaving_s: float | None = None  #: when it was told to stop after a step; None: it was not
    terminated_s: float | None = None  #: when it had SIGTERM, from us or from itself after that step
    is_distributed: bool = False  #: its script works with other workers
    tally: StepTally = msgspec.field(default_factory=StepTally)
    votes: dict[int, int] = {}  #: by worker: steps that it had ended when it was asked to stop
    begun_s: float | None = None  #: when its gang had started, by the clock of `restarting.keep_limit`


class KnownGang(msgspec.Struct, kw_only=True):
    """A gang as it was when its latest change was done, or it started. Hosts keep the newest `version`."""

    version: int = 0  #: of what hosts were told; 0: nothing yet
    launch: int = 0  #: generation of the command that launched it
    generation: int = 0  #: that it trains as
    workers: dict[int, Slot] = {}  #: all of them, in rank order; some may have died since
    configuration: Configuration = PLAIN_CONFIGURATION
    next_worker: int = 0  #: number of the next worker that is started
    max_local_batch: int | None = None  #: samples of a pass, as far as is known
    mean_time_to_loss_s: float | None = None  #: as the head said last
    told_steps: int | None = None  #: losses up to this step have been heard
    saved_steps: int = 0  #: of the newest checkpoint
    known_findings: tuple[str, ...] = ()  #: names of those about its script that the head has been told
    verified_steps: int | None = None  #: of the checkpoint that is kept besides, where a job rolls back
    rolls_back: bool = False  #: it began there, or is about to
    warnings: dict[str, str] = {}  #: topic -> what its owner was told last
    num_takeovers: int = 0  #: controllers that have told of it, but the first
    restarts: RestartSet | None = None  #: if its script knows nothing of Swell


class GangRecord(KnownGang, kw_only=True):
    """A gang, whose `state` changes by `become` alone.

    Its processes live through its changes, or have `restarts`. What the head knows of it is settled: whatever
    breaks while a change is under way ends the change. Workers that the head does not know of are killed, and
    only then is anything told, because the head takes a device for free as soon as it hears.
    """

    replies: AnswerLog = msgspec.field(default_factory=AnswerLog)
    slots: tuple[Slot, ...] = ()  #: the settled gang as it is left: empty until it has started
    wanted_slots: tuple[Slot, ...] = ()  #: the devices of the workers there should be
    wanted_configuration: Configuration = PLAIN_CONFIGURATION
    state: GangState = GangState.FORMING
    failure: str = ""  #: why it is SHRINKING
    setback: Setback = msgspec.field(default_factory=Setback)
    ending: GangEnd | None = None
    formation: Formation = msgspec.field(default_factory=Formation)
    members: dict[int, Member] = {}  #: its live workers
    final: Finished | None = None  #: the last word of a job that met its end condition
    steps: int = 0  #: finished, as far as is known
    step_s: float = 0.0  #: as last reported
    num_strikes: int = 0  #: how often in a row workers were stuck
    struck_steps: int = 0  #: `steps` at the latest one

    @property
    def settled(self) -> KnownGang:
        """What hosts keep of it."""
        known = KnownGang(**{name: getattr(self, name) for name in KnownGang.__struct_fields__})
        known.restarts = copy.deepcopy(self.restarts)  # all else is replaced, not changed
        return known

    @property
    def has_started(self) -> bool:
        return bool(self.slots)

    def become(self, state: GangState, failure: str = "") -> None:
        """Raises RuntimeError: a defect of the controller, see `gang_state.TRANSITIONS`."""
        self.state, self.failure = next_state(self.state, state), failure

    def want_as_is(self) -> None:
        """No workers are wanted but those that the head knows, and they train as they did."""
        self.wanted_slots, self.wanted_configuration = self.slots, self.configuration

    @property
    def is_save_out(self) -> bool:
        """An order to save and to leave is being carried out; a break of the group makes it void."""
        return self.formation.is_saving and not self.setback.is_open

    @property
    def is_safe(self) -> bool:
        """The gang is being suspended, and its state is saved, if anybody but its script can say so."""
        return self.state is GangState.SAVING and (self.formation.has_left or self.restarts is not None)

    @property
    def is_to_close(self) -> bool:
        """Whether no process is left, and none is to come."""
        is_saving = self.state is GangState.SAVING
        is_begun = self.formation.round > 0 if self.restarts is None else is_saving
        return not self.members and (self.ending is not None or is_begun)

    # ------------------------------------------------------------ its members
    def knows(self, member: Member) -> bool:
        """Whether the head takes the member for one of the gang; before the start all are."""
        return not self.slots or member.slot in self.slots

    def by_rank(self) -> list[Member]:
        """All live workers: the group in rank order, then the others by number."""
        order = {number: rank for rank, number in enumerate(self.formation.group)}
        return sorted(self.members.values(), key=lambda m: (order.get(m.number, len(order)), m.number))

    def in_group(self) -> list[Member]:
        """Live members of the latest group, in rank order, then others that are leaving or broken."""
        group = self.formation.group
        ranked = [self.members[number] for number in group if number in self.members]
        cast_out = (State.LEAVING, State.BROKEN)
        return ranked + [m for m in self.members.values() if m.state in cast_out and m.number not in group]

    def joiners(self) -> list[Member]:
        """Live workers that no group has had yet."""
        return [m for m in self.members.values() if m.state in JOINING]

    def next_group(self) -> list[Member]:
        """Survivors first, in their rank order, then joiners that are ready, in the order that is wanted.

        If no worker that knows the state is wanted, the most advanced one stays as a bridge: it hands the
        state on, and leaves with the group after.
        """
        old = [member for member in self.in_group() if member.state is not State.LEFT]
        survivors = [member for member in old if member.slot in self.wanted_slots]
        ready = {m.slot: m for m in self.joiners() if m.state is State.READY and not m.is_killed}
        joiners = [ready[slot] for slot in self.wanted_slots if slot in ready]
        if old and not any(m.has_state for m in survivors) and any(m.has_state for m in old):
            bridge = max((m for m in old if m.has_state), key=lambda member: member.steps)
            survivors = [bridge, *survivors]
        return survivors + joiners

    def unaware(self) -> list[Member]:
        """Members that still take a broken group for whole: their collective has yet to fail."""
        return [member for member in self.in_group() if member.state is State.TRAINING]

    def describe(self, member: Member) -> str:
        """`worker 5 (rank 1 of 2)`"""
        group, number = self.formation.group, member.number
        rank = f" (rank {group.index(number)} of {len(group)})" if number in group else ""
        return f"worker {number}{rank}"


class State(Enum):
    STARTING = auto()  #: forked, or about to be; the script is on its way to `swell.train.elastic`
    READY = auto()  #: waits for its first group
    PROVING = auto()  #: likewise, and computes a step of the job again until then
    FORMING = auto()  #: told to join a group; a newer order takes the place of the one it has
    TRAINING = auto()  #: in the group, with the state
    BROKEN = auto()  #: its group failed; waits
    LEAVING = auto()  #: told to leave at the next step boundary
    LEFT = auto()  #: out of every group; exits


#: States of a member that no group has had yet.
JOINING = (State.STARTING, State.READY, State.PROVING)
#: States in which a member takes part in the steps of the group that it is in.
IN_STEP = (State.TRAINING, State.LEAVING)


@dataclass(slots=True)
class Member:
    """A worker from its spawn to its exit."""

    number: int
    slot: Slot
    since_s: float  #: spawned then, or told to prove itself
    state: State = State.STARTING
    pid: int | None = None
    heard_s: float | None = None  #: None: not connected yet
    heartbeat: Alive | None = None  #: what it last said of its main thread
    steps: int = 0
    has_state: bool = False  #: was in a group, so it knows parameters worth sending
    whole_round: int | None = None  #: the group it is in, while it has not called it broken
    failure: str = ""  #: why it failed, or why it had to be killed
    is_at_fault: bool = False  #: the script failed, not the process
    left_s: float | None = None
    is_killed: bool = False  #: by us: SIGKILL is on its way

    @property
    def whereabouts(self) -> str:
        """` is at train.py:57 in evaluate`; empty while the place in its script is not known."""
        return f" is at {self.heartbeat.place}" if self.heartbeat and self.heartbeat.place else ""

    @property
    def busy_s(self) -> float:
        """Its script has made no step and come to no collective for so long."""
        return self.heartbeat.for_s if self.heartbeat is not None and not self.heartbeat.awaits else 0.0

    @property
    def waits_s(self) -> float:
        """It has been waiting for others for so long."""
        return self.heartbeat.for_s if self.heartbeat is not None and self.heartbeat.awaits else 0.0


def cut_slots(devices: Sequence[str], devices_per_worker: int, kept: Iterable[Slot]) -> tuple[Slot, ...]:
    """One slot a worker: those of `kept` whose devices are all there, then neighbours of what remains."""
    there = set(devices)
    whole = [slot for slot in kept if there.issuperset(slot)]
    taken = {device for slot in whole for device in slot}
    rest = [device for device in devices if device not in taken]
    cut = [tuple(rest[i : i + devices_per_worker]) for i in range(0, len(rest), devices_per_worker)]
    position = {device: i for i, device in enumerate(devices)}
    return tuple(sorted((*whole, *cut), key=lambda slot: position[slot[0]]))


def best_source(group: Sequence[Member]) -> int | None:
    """The rank that has come furthest; None if none has any state."""
    ranks = [rank for rank, member in enumerate(group) if member.has_state]
    return max(ranks, key=lambda rank: (group[rank].steps, -rank), default=None)


def flatten(slots: Iterable[Slot]) -> tuple[str, ...]:
    return tuple(device for slot in slots for device in slot)


def overdue(member: Member, script: str, now_s: float, settings: GangSettings) -> tuple[str, bool] | None:
    """Return why a worker's time is up, and whether its script is at fault; None: it is not up."""
    is_on_its_way = member.state is State.STARTING and member.pid is not None
    is_reading = member.heartbeat is not None and member.heartbeat.awaits == "data"
    ready_s = settings.ready_s * (READING_SHARE if is_reading else 1.0)
    if is_on_its_way and now_s - member.since_s > ready_s:
        return never_called(script, settings.ready_s, member), True
    if why := unresponsive(member, now_s, settings):
        return why, False
    if member.left_s is not None and now_s - member.left_s > settings.leave_s:
        return f"worker {member.number} did not exit within {span(settings.leave_s)} and was killed", False
    return None


def unresponsive(member: Member, now_s: float, settings: GangSettings) -> str:
    """Return why a worker is taken for dead that gives no sign of life; empty: it is not."""
    if member.heard_s is not None and now_s - member.heard_s > settings.silence_s:
        return f"worker {member.number} gave no sign of life for {span(settings.silence_s)} and was killed"
    return ""


def never_called(script: str, limit_s: float, member: Member) -> str:
    where = member.whereabouts and f", and{member.whereabouts}"
    return (
        f"script {script} did not call swell.train.elastic within {span(limit_s)}{where}; call it before the "
        "training loop, after only what is needed to build model, optimizer and data, or submit the job with "
        "elasticity 'restart'"
    )


def ended_early(script: str, status: int) -> str:
    return (
        f"script {script} ended with status {status} before it called swell.train.elastic; call it before "
        "the training loop, or submit the job with elasticity 'restart'"
    )


def is_fault_of_script(status: int) -> bool:
    """Whether its script, or what its job asks for, has ended a process, and not a signal."""
    return status == UNFIT or (status >= 0 and status != EXIT_STOPPED)


def describe_exit(member: Member, status: int, log_tail: str, who: str = "", ended: str = "exited") -> str:
    """How a worker ended, in the words of its own traceback where there is one.

    Args:
        who: what it is called; empty: by its number.
    """
    who = who or f"worker {member.number}"
    if member.failure:
        return member.failure
    ends = {
        NOT_STARTED: f"could not be started, through no fault of the script: {log_tail}",
        UNFIT: f"could not be started: {log_tail}",
        HOST_LOST: f"was lost: {log_tail}",
        OVER_MEMORY: f"was killed: the processes of its job went beyond their {log_tail}",
        OUT_OF_MEMORY: f"was killed {log_tail}",
        STOPPED: "was stopped by a signal, and was killed",
    }
    if status in ends:
        return f"{who} {ends[status]}"
    if status < 0:
        return f"{who} was killed by {signal_name(-status)}"
    text = f"{who} {ended} with status {status}"
    return f"{text}; {LOG_ENDS}\n{log_tail}" if log_tail else text


def signal_name(number: int) -> str:
    """Real-time signals have no names but the first and the last."""
    known = {known.value: known.name for known in signal.Signals}
    return known.get(number, f"signal {number}")


def half(num_samples: int, bound: int | None) -> int:
    """The new bound on a pass, after memory ran out with so many samples; never above the one there was.

    Several workers that run out in the same step halve it once.
    """
    halved = max(1, num_samples // 2)
    return halved if bound is None else min(halved, bound)

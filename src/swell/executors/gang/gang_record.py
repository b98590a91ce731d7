"""A gang as one value: what its controller knows, and its hosts keep for the next controller.

Hosts get it when a command comes, and with all that follows from an input but reports of progress. What
workers have said since, of which nothing followed yet, the next controller hears again.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum, StrEnum, auto

import msgspec

from swell.executors.gang.ending import Ending
from swell.executors.gang.member import Member, Roster, Slot, State, flatten
from swell.executors.gang.replies import CommandReplies, Replies
from swell.executors.gang.restart_state import Restarts
from swell.model.coding import decoder, encode
from swell.model.event import (
    AnyEvent,
    GangEnded,
    GangResized,
    GangStarted,
    GangSuspended,
    ResizeFailed,
    SuspendFailed,
    WorkersLost,
)
from swell.model.target import PLAIN_CONFIGURATION, Configuration
from swell.wire.messages import Finished


class ChangeAim(StrEnum):
    LAUNCH = "LAUNCH"
    RESIZE = "RESIZE"
    SUSPEND = "SUSPEND"


class PendingChange(msgspec.Struct, kw_only=True):
    """A command whose answer is still out.

    It does not survive a break of the group, unless it is a suspend or keeps the same members.
    """

    aim: ChangeAim
    since_s: float = 0.0
    failure: str = ""  #: why it is being undone
    lost: tuple[Slot, ...] = ()  #: slots whose workers were lost while the change was undone


class Membership(msgspec.Struct, kw_only=True):
    """The gang as the head knows it, and the change of it that is under way.

    Whatever breaks while a change is under way ends the change: workers that the head does not know of are
    killed, and only then is anything told, because the head takes a device for free as soon as it hears.
    """

    slots: tuple[Slot, ...] = ()  #: the settled gang: empty until it has started
    configuration: Configuration = PLAIN_CONFIGURATION  #: of the settled gang
    generation: int = 0  #: that the settled gang trains as
    change: PendingChange | None = None
    is_unheard: bool = False  #: a loss was told, and nothing shows yet that the head has heard of it

    @property
    def has_started(self) -> bool:
        return bool(self.slots)

    @property
    def is_suspending(self) -> bool:
        return self.change is not None and self.change.aim is ChangeAim.SUSPEND and not self.change.failure

    @property
    def may_start_workers(self) -> bool:
        """Whether a launch or a resize is under way, for which workers may have to be started."""
        return (
            self.change is not None and self.change.aim is not ChangeAim.SUSPEND and not self.change.failure
        )

    def is_informed(self, devices: Collection[str]) -> bool:
        """Whether a resize to these devices was asked for after the head had heard of the latest loss.

        The first that it asks for then is the gang as it is left. Any other was on its way when the loss was
        told: the head has given it up, and takes devices that it names for free.
        """
        self.is_unheard = self.is_unheard and set(devices) != set(flatten(self.slots))
        return not self.is_unheard

    def knows(self, member: Member) -> bool:
        """Whether the head takes the member for one of the gang; before the start all are."""
        return not self.slots or member.slot in self.slots

    def strangers(self, roster: Roster) -> list[Member]:
        return [member for member in roster.members.values() if not self.knows(member)]

    def staying(self, roster: Roster, is_broken: bool) -> tuple[Slot, ...]:
        """The settled slots on which a worker stands that stays.

        Of a broken group those stay, too, that were told to leave it and had not yet.
        """
        going = (State.LEFT,) if is_broken else (State.LEAVING, State.LEFT)
        taken = {member.slot for member in roster.members.values() if member.state not in going}
        return tuple(slot for slot in self.slots if slot in taken)

    def cut_back(self, why: str, roster: Roster, target: tuple[Slot, ...]) -> PendingChange | None:
        """The group broke, and of its workers only those are left that the head knows: what it is to hear, if
        anything. A suspend is still to be carried out, and so is a change to what is left: a repair, or
        another batch.
        """
        lost = self._become(self.staying(roster, is_broken=True))
        change = self.change
        if lost:
            self.is_unheard = True
            if not self.is_suspending:
                self.change = None
            return PendingChange(aim=ChangeAim.RESIZE, failure=why, lost=lost)
        is_of_same = set(target) == set(self.slots)
        if change is None or change.aim is not ChangeAim.RESIZE or (is_of_same and not change.failure):
            return None
        self.change = None
        return PendingChange(aim=ChangeAim.RESIZE, failure=change.failure or why)

    def settle(self, slots: tuple[Slot, ...], configuration: Configuration) -> PendingChange | None:
        """The gang is what it should be: this. Return the change whose answer is due."""
        lost, self.configuration = self._become(slots), configuration
        change, self.change = self.change, None
        if change is not None and change.failure:
            change.lost = lost
            self.is_unheard |= bool(lost)
        return change

    def _become(self, slots: tuple[Slot, ...]) -> tuple[Slot, ...]:
        """The settled gang is this; returns what it no longer has."""
        lost = tuple(slot for slot in self.slots if slot not in slots)
        self.slots = slots
        return lost


def answer(
    change: PendingChange, replies: CommandReplies, steps: int = 0, pids: tuple[int, ...] = ()
) -> AnyEvent:
    """What the head is told of a change that has ended."""
    facts = replies.facts()
    if change.lost:
        return WorkersLost(**facts, devices=flatten(change.lost), message=change.failure)
    if change.failure and change.aim is ChangeAim.SUSPEND:
        return SuspendFailed(**facts, message=change.failure)
    if change.failure:
        return ResizeFailed(**facts, message=change.failure)
    kind = GangStarted if change.aim is ChangeAim.LAUNCH else GangResized
    return kind(**facts, steps=steps, pids=pids)


class Suspension(msgspec.Struct, kw_only=True):
    """How far the latest order to suspend is."""

    round: int | None = None  #: the group that it was sent to; None: it is yet to be sent
    is_void: bool = False  #: that group broke
    is_saved: bool = False  #: since it was sent
    has_left: bool = False  #: a worker, so all agreed that it is saved

    @property
    def is_out(self) -> bool:
        """The order holds, and is being carried out."""
        return self.round is not None and not self.is_void

    @property
    def is_safe(self) -> bool:
        """Whether the state is saved, and all agreed that it is: the workers have only to exit."""
        return self.is_saved and self.has_left

    def begin(self, round: int) -> None:
        """It is sent to this group."""
        self.clear()
        self.round = round

    def clear(self) -> None:
        """None is under way."""
        self.round, self.is_void, self.is_saved, self.has_left = None, False, False, False

    def note_save(self) -> None:
        self.is_saved |= self.round is not None

    def note_leave(self, round: int) -> bool:
        """Whether a worker leaves because of it, which follows only once all agreed that it is saved."""
        is_meant = round == self.round
        self.has_left |= is_meant
        return is_meant


#: A group that fails to form so often in a row, with all its members alive, never will.
MAX_FAILED_ROUNDS = 3


class Move(Enum):
    """What a gang has to do next about its broken group."""

    LOSE = auto()  #: there never was a whole gang, and there will be none
    PART = auto()  #: all there was to save is saved: no worker is needed any more
    CUT_BACK = auto()  #: back to what the head believes the gang to be, as far as it is still there
    WAIT = auto()  #: a member has yet to notice
    FORM = auto()  #: the next group may form


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

    def note(self, why: str, now_s: float) -> None:
        """A collective failed. The first word of it counts."""
        if self.since_s is None:
            self.since_s, self.why, self.is_cut_back = now_s, why, False
            self.is_over_memory = False

    def note_death(self, why: str, now_s: float) -> None:
        """A member is gone: what its peers said when their collective failed is no more than an echo.

        Of one that was sent away because of that, its death (`why` is empty) is the echo.
        """
        self.note(why, now_s)
        if why and not self.is_of_death:
            self.why, self.is_of_death = why, True
        self.has_lost, self.is_cut_back = True, False

    def count_failed_round(self) -> bool:
        """Count the group that has broken, if no member was lost. Return whether it is one too many in a row.

        Call it once for each group that is to follow a broken one.
        """
        if self.is_open and not self.has_lost:
            self.num_failed_rounds += 1
            return self.num_failed_rounds > MAX_FAILED_ROUNDS
        return False

    def close(self) -> None:
        """The next group is told to form."""
        self.since_s, self.has_lost, self.is_of_death = None, False, False

    def unaware(self, roster: Roster) -> list[Member]:
        """Members that still take the group for whole: their collective has yet to fail."""
        return [member for member in roster.in_group() if member.state is State.TRAINING]

    def next_move(self, roster: Roster, has_started: bool, is_safe: bool) -> Move:
        """`has_started`: the head believes in a gang; `is_safe`: it is being suspended, and is saved."""
        if self.has_lost and not has_started:
            return Move.LOSE
        if is_safe:
            return Move.PART
        if has_started and not self.is_cut_back:
            return Move.CUT_BACK
        return Move.WAIT if self.unaware(roster) else Move.FORM


#: Limits of time are as long as so many steps at least: some jobs take long over each.
SLOW_STEPS = 4.0
#: A worker that is stuck so often in a row, without a step between, is stuck by the script.
MAX_STRIKES = 3


class HangDetector(msgspec.Struct, kw_only=True):
    """How often in a row workers were stuck. Which of them are now is asked of the roster."""

    step_s: float = 0.0  #: of the job, as last reported
    num_strikes: int = 0
    steps: int = 0  #: at the latest strike

    def limit_s(self, least_s: float) -> float:
        return max(least_s, SLOW_STEPS * self.step_s)

    def strike(self, steps: int) -> bool:
        """A worker was stuck after so many steps. True if that is the script's own doing."""
        self.num_strikes = self.num_strikes + 1 if steps == self.steps else 1
        self.steps = steps
        return self.num_strikes >= MAX_STRIKES


class Formation(msgspec.Struct, kw_only=True):
    """The latest round: which workers were told to be a group. Rounds are the wire's generations."""

    round: int = 0
    configuration: Configuration = PLAIN_CONFIGURATION  #: of the group
    group: list[int] = []  #: worker numbers by rank; some may have died since
    ordered_s: float = 0.0  #: when the latest order was given
    is_lateness_told: bool = False  #: of that order


class GangRecord(msgspec.Struct, kw_only=True):
    """A gang. It ends once it has an `ending`, and is over once `replies` has an end.

    Its processes live through its changes, or have `restarts`.
    """

    replies: Replies = msgspec.field(default_factory=Replies)
    membership: Membership = msgspec.field(default_factory=Membership)
    wanted_slots: tuple[Slot, ...] = ()  #: the devices of the workers there should be
    wanted_configuration: Configuration = PLAIN_CONFIGURATION
    setback: Setback = msgspec.field(default_factory=Setback)
    suspension: Suspension = msgspec.field(default_factory=Suspension)
    ending: Ending | None = None
    formation: Formation = msgspec.field(default_factory=Formation)
    members: dict[int, Member] = {}  #: its live workers
    final: Finished | None = None  #: the last word of a job that met its end condition
    next_worker: int = 0  #: number of the next worker that is started
    has_spawned: bool = False  #: a worker was started
    max_local_batch: int | None = None  #: samples of a pass, as far as is known
    mean_time_to_loss_s: float | None = None  #: as the head said last
    steps: int = 0  #: finished, as far as is known
    told_steps: int | None = None  #: losses up to this step have been heard
    hang_detector: HangDetector = msgspec.field(default_factory=HangDetector)
    saved_steps: int = 0  #: of the newest checkpoint
    restarts: Restarts | None = None  #: if its script knows nothing of Swell

    @property
    def is_ending(self) -> bool:
        return self.ending is not None

    @property
    def is_broken(self) -> bool:
        """Whether its group has broken, and the next one does not form yet."""
        return self.setback.is_open and not self.is_ending

    @property
    def is_safe(self) -> bool:
        """The gang is being suspended, and its state is saved, if anybody but its script can say so."""
        return self.membership.is_suspending and (self.restarts is not None or self.suspension.is_safe)

    @property
    def is_to_close(self) -> bool:
        """Whether no process is left, and none is to come."""
        is_begun = self.has_spawned if self.restarts is None else self.membership.is_suspending
        return not self.members and (self.is_ending or is_begun)


class _KeptEnd(msgspec.Struct, frozen=True):
    end: GangEnded | GangSuspended | None = None


class _EndOfGang(msgspec.Struct, frozen=True):
    replies: _KeptEnd = _KeptEnd()


_decoder: msgspec.json.Decoder[GangRecord] = decoder(GangRecord)
_end_decoder: msgspec.json.Decoder[_EndOfGang] = decoder(_EndOfGang)


def write_record(gang: GangRecord) -> msgspec.Raw:
    """Return the record of a gang as it is now."""
    return msgspec.Raw(encode(gang))


def end_in(record: msgspec.Raw) -> GangEnded | GangSuspended | None:
    """Return how the gang of a record ended; None: it has not. Raises msgspec.MsgspecError."""
    return _end_decoder.decode(record).replies.end


def read_record(record: msgspec.Raw) -> GangRecord:
    """Return the gang of a record. Raises msgspec.MsgspecError."""
    return _decoder.decode(record)

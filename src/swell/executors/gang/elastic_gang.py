"""An elastic gang as one value: what its controller knows, and its hosts keep for the next controller.

Hosts get it when a command comes, and with all that follows from an input but reports of progress. What
workers have said since, of which nothing followed yet, the next controller hears again.
"""

from __future__ import annotations

from enum import Enum, auto

import msgspec

from swell.executors.gang.ending import Ending
from swell.executors.gang.member import Member, Roster, Slot, State
from swell.executors.gang.membership import Membership
from swell.executors.gang.replies import Replies
from swell.model.target import PLAIN_CONFIGURATION, Configuration
from swell.wire.messages import Finished


class Suspension(msgspec.Struct, kw_only=True):
    """How far the latest order to suspend is."""

    round: int | None = None  #: the group that it was sent to; None: it is yet to be sent
    is_void: bool = False  #: that group broke
    is_saved: bool = False  #: since it was sent
    has_left: bool = False  #: somebody, so all agreed that it is saved

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
        """Whether somebody leaves because of it, which follows only once all agreed that it is saved."""
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
    WAIT = auto()  #: somebody has yet to notice
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


#: Who takes long over each step is given the time of so many.
SLOW_STEPS = 4.0
#: So often in a row without a step between, and it is the script.
MAX_STRIKES = 3


class HangDetector(msgspec.Struct, kw_only=True):
    """Keeps count of what it came to; all else is asked of the roster."""

    step_s: float = 0.0  #: of the job, as last reported
    num_strikes: int = 0
    steps: int = 0  #: at the latest strike

    def limit_s(self, least_s: float) -> float:
        return max(least_s, SLOW_STEPS * self.step_s)

    def strike(self, steps: int) -> bool:
        """Somebody was stuck after so many steps. True if that is the script's own doing."""
        self.num_strikes = self.num_strikes + 1 if steps == self.steps else 1
        self.steps = steps
        return self.num_strikes >= MAX_STRIKES


class Formation(msgspec.Struct, kw_only=True):
    """The latest round: which workers were told to be a group. Rounds are the wire's generations."""

    round: int = 0
    configuration: Configuration = PLAIN_CONFIGURATION  #: of the group
    group: list[int] = []  #: worker numbers by rank; some may have died since
    hosts: dict[int, str] = {}  #: of members, by the latest order of each
    former_host: str = ""  #: of the leader of the group before
    ordered_s: float = 0.0  #: when the latest order was given
    is_lateness_told: bool = False  #: of that order


class ElasticGang(msgspec.Struct, kw_only=True, tag=True):
    """A gang whose processes live through its changes.

    It ends once it has an `ending`, and is over once `replies` has an end.
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
    #: Members that have come to their end where another host speaks for the gang, and what each said of that.
    finished: dict[int, tuple[Member, Finished | None]] = {}
    final: Finished | None = None  #: the last word of a job that met its end condition
    next_worker: int = 0  #: number of the next worker that is started
    has_spawned: bool = False  #: a worker was started
    max_local_batch: int | None = None  #: samples of a pass, as far as is known
    mean_time_to_loss_s: float | None = None  #: as the head said last
    steps: int = 0  #: finished, as far as is known
    told_steps: int | None = None  #: losses up to this step have been heard
    hang_detector: HangDetector = msgspec.field(default_factory=HangDetector)
    saved_steps: int = 0  #: of the newest checkpoint

    @property
    def known_configuration(self) -> Configuration:
        """How it runs, as the head knows."""
        return self.membership.configuration

    @property
    def is_ending(self) -> bool:
        return self.ending is not None

    @property
    def is_broken(self) -> bool:
        """Whether its group has broken, and the next one does not form yet."""
        return self.setback.is_open and not self.is_ending

    @property
    def is_safe(self) -> bool:
        """The gang is being suspended, and its state is saved."""
        return self.membership.is_suspending and self.suspension.is_safe

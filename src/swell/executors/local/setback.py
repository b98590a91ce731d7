"""What broke a group, and what stands between that and the next one."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from swell.executors.local.member import Member, Roster, State

#: A group that fails to form so often in a row, with all its members alive, never will.
MAX_FAILED_ROUNDS = 3


class Move(Enum):
    """What a gang has to do next about its broken group."""

    WAIT = auto()  #: somebody has yet to notice, or to be gone
    TELL = auto()  #: the head is to say what becomes of the survivors: tell it who is lost by now
    LOSE = auto()  #: there never was a whole gang, and there will be none
    PART = auto()  #: all there was to save is saved: nobody is needed any more
    CUT_BACK = auto()  #: back to what the head believes the gang to be, as far as it is still there
    FORM = auto()  #: the next group may form


@dataclass(slots=True)
class Setback:
    """Open from the first word of a break until the next group is told to form."""

    why: str = ""
    since_s: float | None = None  #: None: the group is whole
    has_lost: bool = False  #: a member of the group is gone, so it cannot just form again
    num_failed_rounds: int = 0
    is_waiting: bool = False  #: survivors wait for the head's next word
    is_excused: bool = False  #: the head has spoken since the group broke

    @property
    def is_open(self) -> bool:
        return self.since_s is not None

    def note(self, why: str, now_s: float) -> None:
        """A collective failed. The first word of it counts."""
        if self.since_s is None:
            self.since_s, self.why = now_s, why

    def note_death(self, why: str, now_s: float) -> None:
        """A member is gone: what its peers said when their collective failed is no more than an echo."""
        self.note(why, now_s)
        if not self.has_lost:
            self.why = why
        self.has_lost = True

    def note_word_of_head(self) -> None:
        self.is_waiting, self.is_excused = False, self.is_waiting or self.is_excused

    def is_hopeless(self) -> bool:
        """To be asked once for each group that is to follow a broken one; counts those that never formed."""
        if self.is_open and not self.has_lost:
            self.num_failed_rounds += 1
            return self.num_failed_rounds > MAX_FAILED_ROUNDS
        return False

    def close(self) -> None:
        """The next group is told to form."""
        self.since_s, self.has_lost, self.is_excused = None, False, False

    def unaware(self, roster: Roster) -> list[Member]:
        """Members that still take the group for whole: their collective has yet to fail."""
        return [member for member in roster.in_group() if member.state is State.TRAINING]

    def overdue(self, roster: Roster, now_s: float, notice_s: float) -> list[Member]:
        """Members that should have noticed by now."""
        if self.since_s is None or now_s - self.since_s <= notice_s or self.is_waiting:
            return []
        return self.unaware(roster)

    def next_move(self, roster: Roster, is_settled: bool, is_safe: bool) -> Move:
        """`is_settled`: the head believes in a gang; `is_safe`: it is being suspended, and is saved."""
        if self.is_waiting:
            is_leaving = any(member.state is State.LEFT for member in roster.members.values())
            return Move.WAIT if is_leaving else Move.TELL
        if self.has_lost and not is_settled:
            return Move.LOSE
        if self.unaware(roster):
            return Move.WAIT
        if is_safe:
            return Move.PART
        return Move.CUT_BACK if is_settled and not self.is_excused else Move.FORM

"""What broke a group, and what stands between that and the next one."""

from __future__ import annotations

from enum import Enum, auto

import msgspec

from swell.executors.gang.member import Member, Roster, State

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

    def next_move(self, roster: Roster, is_settled: bool, is_safe: bool) -> Move:
        """`is_settled`: the head believes in a gang; `is_safe`: it is being suspended, and is saved."""
        if self.has_lost and not is_settled:
            return Move.LOSE
        if is_safe:
            return Move.PART
        if is_settled and not self.is_cut_back:
            return Move.CUT_BACK
        return Move.WAIT if self.unaware(roster) else Move.FORM

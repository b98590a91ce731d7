"""Who holds the others of a gang up, by what all say of their main threads.

A worker may take minutes: rank 0 evaluates while the others wait in the all-reduce. No worker is stuck
for which no other waits.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from swell.executors.gang.member import IN_STEP, Member, Roster, State

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


def busy(roster: Roster, limit_s: float) -> list[Member]:
    """Members of the group whose script has not come to a collective for so long."""
    return [member for member in _in_group(roster) if member.busy_s >= limit_s]


def waited_for(roster: Roster, limit_s: float, is_ordered: bool, has_started: bool) -> list[Member]:
    """Members that others have waited for, for so long.

    None of a settled gang where only newcomers wait for those who alone know the state.

    Args:
        is_ordered: an order to leave has waited for so long too.
    """
    late = busy(roster, limit_s)
    waiting = [member for member in roster.in_group() if _waits(member) and member.waits_s >= limit_s]
    if is_ordered or not waiting:
        return late if is_ordered else []
    has_value = any(member.has_state for member in late) and not any(m.has_state for m in waiting)
    return [] if has_value and has_started else late


def is_deadlocked(roster: Roster, limit_s: float) -> bool:
    """All wait for each other: what they wait for will not come."""
    members = _in_group(roster)
    return len(members) > 1 and all(member.waits_s >= limit_s for member in members)


def not_come(roster: Roster, newest: int, limit_s: float) -> list[Member]:
    """Members whose script has yet to come to the boundary where it hears of the newest group."""
    told = (State.FORMING, State.LEAVING)
    return [
        member
        for member in busy(roster, limit_s)
        if member.state in told and member.heartbeat is not None and member.heartbeat.generation < newest
    ]


def _in_group(roster: Roster) -> list[Member]:
    states = (State.FORMING, *IN_STEP)
    return [m for m in roster.in_group() if m.state in states and not m.is_killed]


def _waits(member: Member) -> bool:
    """Whether the worker waits for its peers, in a collective or for the group that follows a broken one."""
    if member.heartbeat is None or member.is_killed:
        return False
    return member.heartbeat.awaits == "peers" or member.state is State.BROKEN


def describe(members: Iterable[Member], group: list[int]) -> str:
    """Who, and where: `worker 3 (rank 1 of 4) is at train.py:57 in evaluate`."""
    return "; ".join(_describe(member, group) for member in members)


def _describe(member: Member, group: list[int]) -> str:
    place = member.heartbeat.place if member.heartbeat is not None else ""
    text = name(member, group)
    return f"{text} is at {place}" if place else text


def name(member: Member, group: list[int]) -> str:
    if member.number not in group:
        return f"worker {member.number}"
    return f"worker {member.number} (rank {group.index(member.number)} of {len(group)})"

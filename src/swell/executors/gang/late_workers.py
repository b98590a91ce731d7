"""What a gang does about silent workers, those that hold the others up, and orders not carried out in time.

A worker may take minutes: rank 0 evaluates while the others wait in the all-reduce. No worker is stuck for
which no other waits. Those are killed if one that waits has the state: the others go on without them, and all
that is lost is the step under way. The owner is told of an order that is not carried out in time, and as far
as it can be it is done without the members that do not come to a step boundary.
"""

from __future__ import annotations

from collections.abc import Iterable

from swell.executors.gang import formation, regrouping, shutdown
from swell.executors.gang.ending import with_rank
from swell.executors.gang.member import IN_STEP, Member, Roster, State
from swell.executors.gang.runtime import GangRuntime
from swell.executors.gang.timeouts import overdue
from swell.model.event import Outcome
from swell.model.lengths import span


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
    text = with_rank(member, group)
    return f"{text} is at {place}" if place else text


def kill_silent(live: GangRuntime) -> None:
    """Kill silent workers, and those unaware of a broken group. To be called several times a second."""
    for member in live.members.values():
        verdict = overdue(member, live.job.spec.entry, live.now_s, live.timeouts, live.is_stopped)
        if verdict is not None and not member.is_killed:
            member.is_at_fault |= verdict.is_fault_of_script
            formation.kill(live, [member], verdict.why)
    _kill_unaware(live)


def _kill_unaware(live: GangRuntime) -> None:
    """A member that waits in a step of a broken group should know by now; one in its script will."""
    since_s, limit_s = live.gang.setback.since_s, live.timeouts.notice_s
    if since_s is None or live.now_s - since_s <= limit_s:
        return
    unaware = live.gang.setback.unaware(live.roster)
    deaf = [member for member in unaware if member.waits_s >= limit_s or member.heartbeat is None]
    formation.kill(live, deaf, "a worker did not notice that its group had broken, and was killed")


def kill_stuck(live: GangRuntime) -> None:
    """Kill stuck workers, or break off a deadlocked group. To be called several times a second."""
    limit_s = live.gang.hang_detector.limit_s(live.timeouts.stuck_s)
    has_started = live.gang.membership.has_started
    stuck = waited_for(live.roster, limit_s, _is_ordered(live, limit_s), has_started)
    if stuck:
        who = describe(stuck, live.gang.formation.group)
        _strike(live, stuck, f"{who}; others had waited for it for {span(limit_s)}, and it was killed")
    elif regrouping.is_at_rest(live, limit_s) and is_deadlocked(live.roster, limit_s):
        why = f"all workers had waited for each other for {span(limit_s)}: their group was broken off"
        _strike(live, [], why)
        if not live.gang.is_ending:
            regrouping.break_off(live, why)


def _is_ordered(live: GangRuntime, limit_s: float) -> bool:
    """A suspend has waited for so long, as long as a worker's peers would."""
    membership = live.gang.membership
    change = membership.change if membership.is_suspending else None
    return change is not None and live.now_s - change.since_s >= limit_s


def _strike(live: GangRuntime, stuck: list[Member], why: str) -> None:
    """Do without the stuck workers. The script is at fault if that comes repeatedly at the same step."""
    steps = live.gang.steps
    remedy = "if that is its ordinary work, raise stuck_s: `swell up --set stuck_s=...`"
    if live.gang.hang_detector.strike(steps):
        text = f"after step {steps}, {live.gang.hang_detector.num_strikes} times in a row: {why}"
        shutdown.end(live, Outcome.FAILED, f"{text}; {remedy}")
    else:
        live.replies.warn(f"{why}; {remedy}")
    formation.kill(live, stuck, why)


def hurry(live: GangRuntime) -> None:
    """Handle an order that is late: warn, and go on without the members that delay it.

    To be called several times a second.
    """
    limit_s = live.gang.hang_detector.limit_s(live.timeouts.boundary_s)
    late = _late(live, limit_s) if _is_due(live, limit_s) else []
    if not late:
        return
    who = describe(late, live.gang.formation.group)
    if live.gang.suspension.is_out:
        outcome = "it is saved when the step has ended"
    else:
        outcome = _do_without(live, f"{who}, and came to no step boundary within {span(limit_s)}")
    if not live.gang.formation.is_lateness_told:
        live.gang.formation.is_lateness_told = True
        live.replies.warn(f"a change of the gang has waited for {span(limit_s)}: {who}; {outcome}")


def _is_due(live: GangRuntime, limit_s: float) -> bool:
    gang = live.gang
    is_changing = gang.membership.has_started and gang.membership.change is not None
    return is_changing and not gang.setback.is_open and live.now_s - gang.formation.ordered_s >= limit_s


def _late(live: GangRuntime, limit_s: float) -> list[Member]:
    if live.gang.suspension.is_out:
        return busy(live.roster, limit_s)
    return not_come(live.roster, live.gang.formation.round, limit_s)


def _do_without(live: GangRuntime, why: str) -> str:
    """Newcomers go, or else members that were to leave, if one with the state stays.

    Returns:
        What was done, for the job's owner.
    """
    members = [member for member in live.members.values() if not member.is_killed]
    newcomers = [m for m in members if not m.has_state and m.state is not State.LEFT]
    leavers = [m for m in members if m.state is State.LEAVING]
    if newcomers:
        formation.kill(live, newcomers, why)
        return "it keeps its size"
    if leavers and any(m.has_state and m.state is not State.LEAVING for m in members):
        formation.kill(live, leavers, why)
        return "those who were to leave were killed, and the others go on"
    return "it waits"

"""What a gang does about an order that is not carried out in time.

Its owner is told. As far as it can be it is done without the members that do not come to a step boundary:
newcomers are sent away, and members that were to leave are killed. A suspend has to wait for the step.
"""

from __future__ import annotations

from swell.executors.gang import workers
from swell.executors.gang.hang_detection import busy, describe, not_come
from swell.executors.gang.member import Member, State
from swell.executors.gang.runtime import GangRuntime
from swell.model.lengths import span


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
        workers.kill(live, newcomers, why)
        return "it keeps its size"
    if leavers and any(m.has_state and m.state is not State.LEAVING for m in members):
        workers.kill(live, leavers, why)
        return "those who were to leave were killed, and the others go on"
    return "it waits"

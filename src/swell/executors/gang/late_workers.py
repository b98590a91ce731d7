"""What a gang does about silent workers, those that hold the others up, and orders not carried out in time.

A worker may take minutes: rank 0 evaluates while the others wait in the all-reduce. No worker is stuck for
which no other waits. Those are killed if one that waits has the state: the others go on without them, and all
that is lost is the step under way. The owner is told of an order that is not carried out in time, and as far
as it can be it is done without the members that do not come to a step boundary.
"""

from __future__ import annotations

from swell.executors.gang import proof, regrouping, transition
from swell.executors.gang.gang_record import IN_STEP, Member, State, overdue
from swell.executors.gang.runtime import GangRuntime
from swell.model.event import STEPS, Outcome
from swell.model.gang_state import GangState
from swell.model.quantities import span

#: Limits of time are as long as so many steps at least: some jobs take long over each.
SLOW_STEPS = 4.0
#: The owner is told of a gang that makes no step for so long, and for twice its longest pause so far.
STANDSTILL_S = 60.0
#: A worker that is stuck so often in a row, without a step between, is stuck by the script.
MAX_STRIKES = 3


def watch(live: GangRuntime) -> None:
    """Handle whoever is late. To be called several times a second."""
    for member in live.members.values():
        verdict = overdue(member, live.job.spec.entry, live.now_s, live.settings)
        if verdict is not None and not member.is_killed:
            why, is_fault_of_script = verdict
            member.is_at_fault |= is_fault_of_script
            live.kill([member], why)
    # A member that waits in a step of a broken group should know by now; one in its script will.
    since_s, limit_s = live.gang.setback.since_s, live.settings.notice_s
    if since_s is not None and live.now_s - since_s > limit_s:
        deaf = [m for m in live.gang.unaware() if m.waits_s >= limit_s or m.heartbeat is None]
        live.kill(deaf, "a worker did not notice that its group had broken, and was killed")
    _kill_stuck(live)
    _hurry(live)
    tell_standstill(live)


# ------------------------------------------------------------ workers that hold the others up
def _kill_stuck(live: GangRuntime) -> None:
    """Kill stuck workers, or break off a group whose members all wait for each other."""
    gang, limit_s = live.gang, _limit_s(live, live.settings.stuck_s)
    members = _in_step(live)
    proving = [m for m in live.members.values() if m.state is State.PROVING and not m.is_killed]
    late = [member for member in proving if live.now_s - member.since_s >= limit_s]
    if stuck := _waited_for(live, limit_s) + late:
        why = f"{_whereabouts(live, stuck)}; others had waited for it for {span(limit_s)}, and it was killed"
        _strike(live, stuck, why)
    elif (
        not gang.setback.is_open
        and live.now_s - gang.formation.ordered_s >= limit_s
        and len(members) > 1
        and all(member.waits_s >= limit_s for member in members)
    ):
        why = f"all workers had waited for each other for {span(limit_s)}: their group was broken off"
        _strike(live, [], why)
        if gang.ending is None:
            regrouping.break_off(live, why)


def _waited_for(live: GangRuntime, limit_s: float) -> list[Member]:
    """Members for which others have waited for so long, or an order to save and leave.

    None of a settled gang where only newcomers wait for those who alone know the state.
    """
    gang, late = live.gang, _busy(live, limit_s)
    if gang.is_save_out and live.now_s - gang.formation.ordered_s >= limit_s:
        return late
    waiting = [member for member in gang.in_group() if _waits(member) and member.waits_s >= limit_s]
    has_value = any(member.has_state for member in late) and not any(m.has_state for m in waiting)
    return late if waiting and not (has_value and gang.has_started) else []


def _waits(member: Member) -> bool:
    """Whether the worker waits for its peers, in a collective or for the group that follows a broken one."""
    if member.heartbeat is None or member.is_killed:
        return False
    return member.heartbeat.awaits == "peers" or member.state is State.BROKEN


def _strike(live: GangRuntime, stuck: list[Member], why: str) -> None:
    """Do without the stuck workers. The script is at fault if that comes repeatedly at the same step."""
    gang, steps = live.gang, live.gang.steps
    remedy = "if that is its ordinary work, raise stuck_s: `swell up --set stuck_s=...`"
    gang.num_strikes = gang.num_strikes + 1 if steps == gang.struck_steps else 1
    gang.struck_steps = steps
    if gang.num_strikes >= MAX_STRIKES:
        text = f"after step {steps}, {gang.num_strikes} times in a row: {why}"
        transition.end(live, Outcome.FAILED, f"{text}; {remedy}")
    else:
        live.warn(f"{why}; {remedy}")
    live.kill(stuck, why)


# ------------------------------------------------------------ orders that are late
def _hurry(live: GangRuntime) -> None:
    """Warn of an order that is late, and go on without the members that delay it."""
    gang, limit_s = live.gang, _limit_s(live, live.settings.boundary_s)
    is_changing = gang.has_started and gang.state is not GangState.TRAINING and not gang.setback.is_open
    if not is_changing or live.now_s - gang.formation.ordered_s < limit_s:
        return
    late = _busy(live, limit_s)
    is_waited_for = gang.is_save_out or gang.state is GangState.NOTING
    late = [member for member in late if is_waited_for or _has_yet_to_hear(live, member)]
    if not late:
        proof.note_witnessed(live, None, f"its leader noted no step within {span(limit_s)}")
        return
    who = _whereabouts(live, late)
    outcome = "it is saved when the step has ended"
    if not gang.is_save_out:
        outcome = _do_without(live, f"{who}, and came to no step boundary within {span(limit_s)}")
    if not gang.formation.is_lateness_told:
        gang.formation.is_lateness_told = True
        live.warn(f"a change of the gang has waited for {span(limit_s)}: {who}; {outcome}")


def _has_yet_to_hear(live: GangRuntime, member: Member) -> bool:
    """Whether the script has yet to come to the boundary where it hears of the newest group."""
    is_told = member.state in (State.FORMING, State.LEAVING)
    newest = live.gang.formation.round
    return is_told and member.heartbeat is not None and member.heartbeat.generation < newest


def _do_without(live: GangRuntime, why: str) -> str:
    """Newcomers go, or else members that were to leave, if one with the state stays.

    Returns:
        What was done, for the job's owner.
    """
    members = [member for member in live.members.values() if not member.is_killed]
    newcomers = [m for m in members if not m.has_state and m.state is not State.LEFT]
    leavers = [m for m in members if m.state is State.LEAVING]
    if newcomers:
        live.kill(newcomers, why)
        return "it keeps its size"
    if leavers and any(m.has_state and m.state is not State.LEAVING for m in members):
        live.kill(leavers, why)
        return "those who were to leave were killed, and the others go on"
    return "it waits"


# ------------------------------------------------------------ no steps
def tell_standstill(live: GangRuntime) -> None:
    """Warn of a gang that makes no steps, though no worker waits for another one for too long."""
    restarts = live.gang.restarts
    is_mended = any(member.is_killed for member in live.members.values())
    is_starting = not live.gang.has_started or (restarts is not None and restarts.tally.is_new)
    if is_starting or live.stepped_s is None:
        live.stepped_s = live.now_s
    limit_s = max(_limit_s(live, STANDSTILL_S), 2 * live.longest_pause_s)
    if (quiet_s := live.now_s - live.stepped_s) < limit_s or is_mended or live.gang.warnings.get(STEPS):
        return
    where = _whereabouts(live, _busy(live, 0.5 * limit_s))
    live.warn(
        f"no step for {span(quiet_s)} after step {live.gang.steps}{where and f': {where}'}", about=STEPS
    )


# ------------------------------------------------------------ who, and where
def _limit_s(live: GangRuntime, least_s: float) -> float:
    return max(least_s, SLOW_STEPS * live.gang.step_s)


def _in_step(live: GangRuntime) -> list[Member]:
    states = (State.FORMING, *IN_STEP)
    return [m for m in live.gang.in_group() if m.state in states and not m.is_killed]


def _busy(live: GangRuntime, limit_s: float) -> list[Member]:
    """Members of the group whose script has not come to a collective for so long."""
    return [member for member in _in_step(live) if member.busy_s >= limit_s]


def _whereabouts(live: GangRuntime, members: list[Member]) -> str:
    """`worker 3 (rank 1 of 4) is at train.py:57 in evaluate`"""
    return "; ".join(live.gang.describe(member) + member.whereabouts for member in members)

"""What a live gang's director does about those who say nothing, and those who hold the others up.

Who is silent, or was stopped, is killed. Who keeps others waiting for too long is killed too, if one of them
has the state: they go on without it. An order that is not carried out in time is told of, and as far as it
can be is done without those who do not come: newcomers are sent away, those who were to leave are killed. All
that is lost is the step under way. A suspend has to wait for that step, as long as a worker's peers would.
"""

from __future__ import annotations

from collections.abc import Callable

from swell.executors.gang.gang_state import Ensemble
from swell.executors.gang.hang_detection import busy, describe, is_deadlocked, not_come, waited_for
from swell.executors.gang.member import Member, State
from swell.executors.gang.timeouts import overdue
from swell.model.event import Outcome


def keep_watch(ensemble: Ensemble, is_stopped: Callable[[int], bool]) -> None:
    """To be called several times a second."""
    ending = ensemble.ending
    if ending is not None:
        late = ending.cut_off(ensemble.roster, ensemble.now_s, ensemble.patience, is_stopped)
        ensemble.kill(late)
        return
    _kill_silent(ensemble, is_stopped)
    _kill_unaware(ensemble)
    _part_with_stuck(ensemble)
    _hurry_order(ensemble)


def _kill_silent(ensemble: Ensemble, is_stopped: Callable[[int], bool]) -> None:
    script = ensemble.stage.spec.entry
    for member in ensemble.roster.members.values():
        verdict = overdue(member, script, ensemble.now_s, ensemble.patience, is_stopped)
        if verdict is not None and not member.is_killed:
            member.is_at_fault |= verdict.is_fault_of_script
            ensemble.kill([member], verdict.why)


def _kill_unaware(ensemble: Ensemble) -> None:
    """Who waits in a step of a broken group should have been told by now; who is in the script will be."""
    since_s, limit_s = ensemble.setback.since_s, ensemble.patience.notice_s
    if since_s is None or ensemble.now_s - since_s <= limit_s:
        return
    unaware = ensemble.setback.unaware(ensemble.roster)
    deaf = [member for member in unaware if member.waits_s >= limit_s or member.pulse is None]
    ensemble.kill(deaf, "a worker did not notice that its group had broken, and was killed")


def _part_with_stuck(ensemble: Ensemble) -> None:
    """From those whom the others have waited for too long."""
    roster, limit_s = ensemble.roster, ensemble.vigil.limit_s(ensemble.patience.stuck_s)
    change = ensemble.standing.change if ensemble.standing.is_suspending else None
    is_ordered = change is not None and ensemble.now_s - change.since_s >= limit_s
    stuck = waited_for(roster, limit_s, is_ordered, ensemble.standing.is_settled)
    if stuck:
        why = (
            f"{describe(stuck, roster.group)}; others had waited for it for {limit_s:g} s, and it was killed"
        )
        _strike(ensemble, stuck, why)
    elif _is_at_rest(ensemble, limit_s) and is_deadlocked(roster, limit_s):
        why = f"all workers had waited for each other for {limit_s:g} s: their group was broken off"
        _strike(ensemble, [], why)
        if ensemble.ending is None:
            ensemble.note_break(ensemble.formation.round, why)
            ensemble.formation.abort({member.whole_round for member in roster.in_group()})


def _is_at_rest(ensemble: Ensemble, since_s: float) -> bool:
    """The group is whole, and has been left alone for so long."""
    return not ensemble.setback.is_open and ensemble.now_s - ensemble.formation.ordered_s >= since_s


def _strike(ensemble: Ensemble, stuck: list[Member], why: str) -> None:
    """Do without the stuck ones; where that comes again and again at the same step the script is at fault."""
    remedy = "if that is its ordinary work, raise stuck_s: `swell up --set stuck_s=...`"
    if ensemble.vigil.strike(ensemble.steps):
        text = f"after step {ensemble.steps}, {ensemble.vigil.num_strikes} times in a row: {why}"
        ensemble.end_all(Outcome.FAILED, f"{text}; {remedy}")
    else:
        ensemble.dialogue.warn(f"{why}; {remedy}")
    ensemble.kill(stuck, why)


def _hurry_order(ensemble: Ensemble) -> None:
    """If members of the group come to no step boundary, whatever they were told to do there."""
    formation, limit_s = ensemble.formation, ensemble.vigil.limit_s(ensemble.patience.boundary_s)
    is_due = ensemble.standing.is_settled and ensemble.standing.change is not None
    if not is_due or ensemble.setback.is_open or ensemble.now_s - formation.ordered_s < limit_s:
        return
    if ensemble.suspension.is_out:
        late, outcome = busy(ensemble.roster, limit_s), "it is saved when the step has ended"
    else:
        late, outcome = not_come(ensemble.roster, formation.round, limit_s), ""
    if not late:
        return
    who = describe(late, ensemble.roster.group)
    if not ensemble.suspension.is_out:
        outcome = _do_without(ensemble, f"{who}, and came to no step boundary within {limit_s:g} s")
    if not formation.is_warned:
        formation.is_warned = True
        ensemble.dialogue.warn(f"a change of the gang has waited for {limit_s:g} s: {who}; {outcome}")


def _do_without(ensemble: Ensemble, why: str) -> str:
    """Newcomers go, or else those who were to leave, if somebody with the state stays. Says what was done."""
    members = [member for member in ensemble.roster.members.values() if not member.is_killed]
    newcomers = [m for m in members if not m.has_state and m.state is not State.LEFT]
    leavers = [m for m in members if m.state is State.LEAVING]
    if newcomers:
        ensemble.kill(newcomers, why)
        return "it keeps its size"
    if leavers and any(m.has_state and m.state is not State.LEAVING for m in members):
        ensemble.kill(leavers, why)
        return "those who were to leave were killed, and the others go on"
    return "it waits"

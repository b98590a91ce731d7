"""Moves the workers of a gang towards the target of its change, one group after another."""

from __future__ import annotations

from swell.executors.gang import formation, shutdown, transition, workers
from swell.executors.gang.member import Member, State
from swell.executors.gang.runtime import GangRuntime
from swell.executors.gang.setback import MAX_FAILED_ROUNDS
from swell.model.event import Outcome


def go_on(live: GangRuntime) -> None:
    """Take the next step towards the target, if there is one to take."""
    unwanted = [member for member in live.roster.joiners() if member.slot not in live.gang.target]
    workers.kill(live, unwanted)
    if live.gang.membership.is_growing:
        _spawn_missing(live)
    if live.gang.setback.is_open or not _is_in_motion(live):
        _form_next_group(live)


def _spawn_missing(live: GangRuntime) -> None:
    occupied = {member.slot for member in live.members.values()}
    for slot in live.gang.target:
        if slot not in occupied:
            workers.start(live, slot)


def _is_in_motion(live: GangRuntime) -> bool:
    """Whether an order is still being carried out."""
    moving = (State.FORMING, State.LEAVING, State.LEFT)
    return any(member.state in moving for member in live.members.values())


def _form_next_group(live: GangRuntime) -> None:
    gang = live.gang
    group, is_broken = live.roster.next_group(gang.target), gang.setback.is_open
    slots, wanted = {member.slot for member in group}, set(gang.target)
    is_formed = not is_broken and [member.number for member in group] == gang.formation.group
    configuration = transition.configuration_of(live, len(group))
    is_formed &= gang.formation.configuration.trains_as(configuration) or gang.membership.is_suspending
    if is_formed and slots == wanted:
        if gang.membership.is_suspending:
            _suspend(live)
        elif len(group) == len(live.members):
            transition.settle(live)
    elif group and (is_broken or slots.issuperset(wanted)):
        _regroup(live, group)


def _regroup(live: GangRuntime, group: list[Member]) -> None:
    """The next group is this."""
    gang = live.gang
    if gang.setback.count_failed_round():
        why = f"the group did not form {MAX_FAILED_ROUNDS} times in a row: {gang.setback.why}"
        shutdown.end(live, Outcome.FAILED, why)
        return
    formation.regroup(live, group, transition.configuration_of(live, len(group)))
    gang.suspension.clear()
    gang.setback.close()


def _suspend(live: GangRuntime) -> None:
    suspension = live.gang.suspension
    if not suspension.is_out:
        suspension.begin(live.gang.formation.round)
        formation.suspend(live)

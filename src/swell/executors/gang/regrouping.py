"""Moves the workers of a gang towards its target, one group after another, also after a group has broken."""

from __future__ import annotations

from swell.executors.gang import formation, shutdown, transition
from swell.executors.gang.formation import abort
from swell.executors.gang.gang_record import MAX_FAILED_ROUNDS, Move
from swell.executors.gang.member import IN_STEP, Member, State
from swell.executors.gang.runtime import GangRuntime
from swell.model.event import Outcome
from swell.wire import messages


# ------------------------------------------------------------ what broke
def note_join_failed(live: GangRuntime, message: messages.JoinFailed, member: Member) -> None:
    """The next group did not form. The member goes on in the one that it is in, if it is in one."""
    if message.generation != live.gang.formation.round or member.state is not State.FORMING:
        return  # about a group that was given up before: a later order is on its way
    member.steps = message.steps
    if member.whole_round is None:
        _note_out(live, message, member)
    elif live.gang.ending is None:
        note_break(live, message.generation, message.message)


def note_broken(live: GangRuntime, message: messages.Broken, member: Member) -> None:
    """A collective of this member failed: it is in no group any more."""
    if member.whole_round is not None and message.generation < member.whole_round:
        return
    former, member.whole_round = member.whole_round, None
    if member.state not in (State.FORMING, *IN_STEP):
        return
    member.steps = message.steps
    if message.generation == live.gang.formation.round:
        _note_out(live, message, member)
    else:  # it was told to be in the next one, and goes there at once
        abort(live, {former, message.generation})


def _note_out(live: GangRuntime, message: messages.JoinFailed | messages.Broken, member: Member) -> None:
    """The member is in no group, and waits."""
    member.state = State.BROKEN
    member.heartbeat = None
    if live.gang.ending is not None:
        shutdown.note_broken(live, live.gang.ending, member)
    else:
        note_break(live, message.generation, message.message)


def note_break(live: GangRuntime, round: int, why: str) -> None:
    """A collective of this round's group failed; members that have not noticed are told."""
    live.gang.suspension.is_void = True
    live.gang.setback.note(why, live.now_s)
    abort(live, {round})


def break_off(live: GangRuntime, why: str) -> None:
    """The group is whole, but will make no step: all its members are told."""
    note_break(live, live.gang.formation.round, why)
    abort(live, {member.whole_round for member in live.roster.in_group()})


def note_death(live: GangRuntime, member: Member, why: str) -> None:
    """A member of the group is gone, and with it every group that it was in.

    One that was to leave is gone as it should be. Only the group in which it trained meanwhile breaks: the
    others go on to the next one, which they form without it, or are in it already.

    Args:
        why: empty where it had to go because of what had broken before.
    """
    if member.state is State.LEAVING and not live.gang.setback.is_open:
        abort(live, {member.whole_round})
        return
    live.gang.suspension.is_void = True
    live.gang.setback.note_death(why, live.now_s)
    abort(live, {live.gang.formation.round, member.whole_round})


def is_at_rest(live: GangRuntime, since_s: float) -> bool:
    """The group is whole, and has been left alone for so long."""
    return not live.gang.setback.is_open and live.now_s - live.gang.formation.ordered_s >= since_s


# ------------------------------------------------------------ towards the next group
def is_done(live: GangRuntime) -> bool:
    """Whether groups may form; clears away, step by step, what stands in the way of the next one."""
    gang = live.gang
    while gang.setback.is_open:
        match gang.setback.next_move(live.roster, gang.membership.has_started, gang.is_safe):
            case Move.LOSE:
                shutdown.end(live, Outcome.LOST, gang.setback.why)
                return False
            case Move.PART:
                formation.kill(live, live.members.values())
                return False
            case Move.CUT_BACK:
                if not _cut_back(live):
                    return False
            case Move.WAIT:
                return False
            case Move.FORM:
                return True
    return True


def _cut_back(live: GangRuntime) -> bool:
    """Back to what the head believes the gang to be. False until all strangers are gone."""
    strangers = live.gang.membership.strangers(live.roster)
    leaving = [m for m in live.members.values() if m.state is State.LEFT]
    formation.kill(live, strangers)
    if strangers or leaving:
        return False
    live.gang.setback.is_cut_back = True
    transition.cut_back(live, live.gang.setback.why)
    return True


def go_on(live: GangRuntime) -> None:
    """Take the next step towards the target, if there is one to take."""
    unwanted = [member for member in live.roster.joiners() if member.slot not in live.gang.wanted_slots]
    formation.kill(live, unwanted)
    if live.gang.membership.may_start_workers:
        _spawn_missing(live)
    if live.gang.setback.is_open or not _is_in_motion(live):
        _form_next_group(live)


def _spawn_missing(live: GangRuntime) -> None:
    occupied = {member.slot for member in live.members.values()}
    for slot in live.gang.wanted_slots:
        if slot not in occupied:
            formation.start(live, slot)


def _is_in_motion(live: GangRuntime) -> bool:
    """Whether an order is still being carried out."""
    moving = (State.FORMING, State.LEAVING, State.LEFT)
    return any(member.state in moving for member in live.members.values())


def _form_next_group(live: GangRuntime) -> None:
    gang = live.gang
    group, is_broken = live.roster.next_group(gang.wanted_slots), gang.setback.is_open
    slots, wanted = {member.slot for member in group}, set(gang.wanted_slots)
    is_formed = not is_broken and [member.number for member in group] == gang.formation.group
    configuration = transition.configuration_of(live, len(group))
    is_formed &= gang.formation.configuration.trains_as(configuration) or gang.membership.is_suspending
    if is_formed and slots == wanted:
        if gang.membership.is_suspending:
            _suspend(live)
        elif len(group) == len(live.members):
            transition.finish_change(live)
    elif group and (is_broken or slots.issuperset(wanted)):
        _regroup(live, group)


def _regroup(live: GangRuntime, group: list[Member]) -> None:
    """Order these workers to form the next group."""
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
        formation.order_suspend(live)

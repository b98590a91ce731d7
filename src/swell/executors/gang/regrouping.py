"""Moves the workers of a gang towards its target, one group after another, also after a group has broken.

At the end: what a worker says before it goes, and what its exit means for the gang.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable, Sequence

from swell.executors.exit_status import OUT_OF_MEMORY, OVER_MEMORY
from swell.executors.gang import proof, transition
from swell.executors.gang.gang_record import (
    IN_STEP,
    JOINING,
    Formation,
    Member,
    State,
    best_source,
    describe_exit,
    ended_early,
    half,
    is_fault_of_script,
)
from swell.executors.gang.job_context import JobContext, LocalRank, local_ranks
from swell.executors.gang.runtime import GangRuntime
from swell.model.event import Outcome
from swell.model.gang_state import CHANGING, GangState
from swell.wire import messages

#: A group that fails to form so often in a row, with all its members alive, never will.
MAX_FAILED_ROUNDS = 3


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
    if member.state is State.TRAINING or message.generation == live.gang.formation.round:
        _note_out(live, message, member)
    else:  # it was told to be in the next one, and goes there at once
        abort(live, {former, message.generation})


def _note_out(live: GangRuntime, message: messages.JoinFailed | messages.Broken, member: Member) -> None:
    """The member is in no group, and waits."""
    member.state = State.BROKEN
    member.heartbeat = None
    if live.gang.ending is not None:
        transition.note_broken(live, live.gang.ending, member)
    else:
        note_break(live, message.generation, message.message)


def note_break(live: GangRuntime, round: int, why: str) -> None:
    """A collective of this round's group failed; members that have not noticed are told."""
    live.gang.setback.note_break(why, live.now_s)
    abort(live, {round})


def break_off(live: GangRuntime, why: str) -> None:
    """The group is whole, but will make no step: all its members are told."""
    live.gang.setback.note_break(why, live.now_s)
    abort(live, {live.gang.formation.round, *(member.whole_round for member in live.gang.in_group())})


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
    live.gang.setback.note_death(why, live.now_s)
    abort(live, {live.gang.formation.round, member.whole_round})


def abort(live: GangRuntime, rounds: Iterable[int | None]) -> None:
    """Tell each worker that may be in one of these groups to stop waiting for peers there."""
    broken = {round for round in rounds if round is not None}
    numbers = [m.number for m in live.gang.in_group() if m.state in (State.FORMING, *IN_STEP)]
    for round in sorted(broken):
        live.send(numbers, messages.Abort(generation=round))


# ------------------------------------------------------------ towards the next group
def is_done(live: GangRuntime) -> bool:
    """Whether groups may form; clears away, step by step, what stands in the way of the next one."""
    gang, setback = live.gang, live.gang.setback
    is_failed = gang.state is GangState.SHRINKING
    if setback.is_open and gang.is_safe:  # no worker is needed any more
        live.kill(live.members.values())
        return False
    if gang.has_started and (is_failed or (setback.is_open and not setback.is_cut_back)):
        strangers = [member for member in live.members.values() if not gang.knows(member)]
        live.kill(strangers)
        if strangers or any(member.state is State.LEFT for member in live.members.values()):
            return False
        setback.is_cut_back = True
        transition.cut_back(live, setback.why)
    if not setback.is_open:
        return True
    if setback.has_lost and not gang.has_started:  # there never was a whole gang, or none is left of it
        transition.end(live, Outcome.LOST, setback.why)
        return False
    return not gang.unaware()


def go_on(live: GangRuntime) -> None:
    """Take the next step towards the target, if there is one to take."""
    gang = live.gang
    live.kill([member for member in gang.joiners() if member.slot not in gang.wanted_slots])
    if gang.state in CHANGING:
        occupied = {member.slot for member in live.members.values()}
        for slot in gang.wanted_slots:
            if slot not in occupied:
                live.start(slot)
    moving = (State.FORMING, State.LEAVING, State.LEFT)  # an order is still being carried out
    is_moving = any(member.state in moving for member in live.members.values())
    if (gang.setback.is_open or not is_moving) and proof.is_over(live):
        _form_next_group(live)


def _form_next_group(live: GangRuntime) -> None:
    gang = live.gang
    group, is_broken, is_saving = gang.next_group(), gang.setback.is_open, gang.state is GangState.SAVING
    slots, wanted = {member.slot for member in group}, set(gang.wanted_slots)
    is_formed = not is_broken and [member.number for member in group] == gang.formation.group
    configuration = live.job.configuration_of(len(group), gang.wanted_configuration)
    is_formed &= gang.formation.configuration.trains_as(configuration) or is_saving
    if is_formed and slots == wanted:
        if is_saving and not gang.formation.is_saving:  # the group is to save and to leave
            formation = gang.formation
            formation.is_saving, formation.ordered_s, formation.is_lateness_told = True, live.now_s, False
            live.send(formation.group, messages.Suspend(generation=formation.round))
        elif not is_saving and len(group) == len(live.members):
            transition.finish_change(live)
    elif group and (is_broken or slots.issuperset(wanted)):
        _regroup(live, group)


def _regroup(live: GangRuntime, group: list[Member]) -> None:
    """Order these workers to be a group at the next step boundary; those that are not in it leave then.

    Where all have the state, none is sent, also after a break: they compare their steps by themselves.
    """
    gang, setback = live.gang, live.gang.setback
    if setback.is_open and not setback.has_lost:
        setback.num_failed_rounds += 1
        if setback.num_failed_rounds > MAX_FAILED_ROUNDS:
            why = f"the group did not form {MAX_FAILED_ROUNDS} times in a row: {setback.why}"
            transition.end(live, Outcome.FAILED, why)
            return
    form(live, group, [m for m in gang.in_group() if m not in group and m.state is not State.LEFT])
    setback.since_s, setback.has_lost, setback.is_of_death = None, False, False


def form(live: GangRuntime, group: Sequence[Member], leavers: Sequence[Member] = ()) -> None:
    """Tell the members of the next group, and those that leave."""
    live.gang.formation = Formation(
        round=live.gang.formation.round + 1,
        configuration=live.job.configuration_of(len(group), live.gang.wanted_configuration),
        group=[member.number for member in group],
        ordered_s=live.now_s,
    )
    for order, member in zip(_orders(live, group, leavers), [*group, *leavers], strict=True):
        member.state = State.LEAVING if order.rank is None else State.FORMING
        live.send([member.number], order)


def _orders(live: GangRuntime, group: Sequence[Member], leavers: Sequence[Member]) -> list[messages.Regroup]:
    """Return what the members of the next group are told, by rank, and then those that leave."""
    hosts = [live.job.host_of(member.slot) for member in group]
    places = [*local_ranks(hosts), *(LocalRank() for _ in leavers)]
    return [
        messages.Regroup(
            generation=live.gang.formation.round,
            rank=rank if rank < len(group) else None,
            num_workers=len(group),
            global_batch=live.gang.formation.configuration.global_batch,
            source=best_source(group),
            local_rank=place.local_rank,
            local_world_size=place.local_world_size,
            group_rank=place.group_rank,
            num_hosts=len(set(hosts)),
            told_steps=live.gang.told_steps,
            max_local_batch=live.gang.max_local_batch,
            mean_time_to_loss_s=live.gang.mean_time_to_loss_s,
        )
        for rank, place in enumerate(places)
    ]


def pass_on(live: GangRuntime, bound: messages.Bound, leader: Member) -> None:
    """Where rank 0's store listens, to all the others."""
    formation = live.gang.formation
    if bound.generation == formation.round:
        others = [number for number in formation.group if number != leader.number]
        live.send(others, messages.StoreAddress(generation=formation.round, address=bound.address))


# ------------------------------------------------------------ what a worker says before it goes
def note_left(live: GangRuntime, message: messages.Left, member: Member) -> None:
    """A worker that leaves to be suspended does so once all have agreed that the state is saved."""
    member.left_s = live.now_s
    formation = live.gang.formation
    if formation.is_saving and message.generation == formation.round:
        formation.has_left = True
        member.state = State.LEFT
    elif member.state is State.LEAVING:
        member.state = State.LEFT
    else:
        member.failure = f"worker {member.number} left, on an order that had been taken back"


def note_script_failed(live: GangRuntime, message: messages.Failed, member: Member) -> None:
    """The worker itself knows only why, and not who it is."""
    member.failure = message.message
    if member.number in live.gang.formation.group:
        step = message.steps + 1
        member.failure = f"{live.gang.describe(member)} failed in step {step}:\n{message.message}"
    member.is_at_fault, member.left_s = True, live.now_s
    if live.gang.ending is None and live.gang.knows(member):
        transition.end(live, Outcome.FAILED, member.failure, spared=member)


def note_lack(live: GangRuntime, message: messages.OutOfMemory, member: Member) -> None:
    """No fault of the script's: it dies like one that was killed, and comes again with smaller passes."""
    before = live.gang.max_local_batch
    live.gang.max_local_batch = bound = half(message.num_samples, before)
    member.failure = (
        f"worker {member.number} ran out of memory with {message.num_samples} samples at once "
        f"({message.message}); from now on at most {bound} go through the model together, and a worker does "
        "its part of a step in several passes"
    )
    member.left_s = live.now_s
    if bound != before:
        live.warn(member.failure)


def note_finished(live: GangRuntime, message: messages.Finished | None, member: Member) -> None:
    """Training is over for this worker, or the script came to its end without a word (None)."""
    gang = live.gang
    heard_steps = max(gang.steps, member.heartbeat.steps if member.heartbeat is not None else 0)
    early = early_end(live.job, heard_steps, message)
    if early and gang.ending is None and _is_lost(live, member, message):
        return
    is_leader = gang.formation.group[:1] == [member.number]
    if gang.ending is None:
        if not gang.has_started:
            transition.finish_change(live)  # it was in the group, so all were
        transition.finish(live, member, early)
    if early and gang.ending is not None:
        steps = None if message is None else message.steps
        is_meant = message is not None and not message.is_early
        how = f"{gang.describe(member)} left its training loop{_where(message)}"
        transition.note_left_early(gang.ending, is_meant, steps, how)
        for other in _broken(live, member):
            transition.note_broken(live, gang.ending, other)
    if message is not None and (gang.final is None or is_leader):  # the leader's word, or else the first
        gang.final, gang.steps = message, message.steps


def early_end(job: JobContext, steps: int, message: messages.Finished | None) -> str:
    """What its owner should know of a script that came to its end before its end condition; empty: nothing.

    `message` is None if it never said that it was finished; `steps` are then what was last heard.
    """
    total, target = job.total_steps, job.spec.end.target
    steps = steps if message is None else message.steps
    epochs = job.spec.end.epochs
    if message is not None and epochs is not None and message.epochs >= epochs:
        return ""  # of a stream whose epochs are shorter than was known
    is_within = total is not None and steps < total
    is_early = message.is_early if message is not None else total is None
    if not is_early and (not is_within or (message is not None and target is not None)):
        return ""
    about = "about " if message is None else ""
    of_all = "" if total is None else f" of {total}"
    return f"the script ended by itself{_where(message)} after {about}{steps}{of_all} steps"


def _where(message: messages.Finished | None) -> str:
    return "" if message is None or not message.place else f" at {message.place}"


def _is_lost(live: GangRuntime, member: Member, message: messages.Finished | None) -> bool:
    """Whether the worker has left in a step that broke, or after one in which others broke.

    They make that step again without it.
    """
    broken = [other.steps for other in _broken(live, member)]
    is_lost = member.state is State.BROKEN or (message is not None and message.steps > max(broken, default=0))
    if not broken or not is_lost:
        return False
    live.kill([m for m in live.members.values() if m.number == member.number])
    note_death(live, member, f"worker {member.number} had ended before the others")
    return True


def _broken(live: GangRuntime, member: Member) -> list[Member]:
    """The others whose collective has failed."""
    members = live.members.values()
    return [m for m in members if m.state is State.BROKEN and m.number != member.number]


# ------------------------------------------------------------ its exit
def note_exit(live: GangRuntime, member: Member, status: int, log_tail: str) -> None:
    """The member is none of the live ones any more."""
    member.is_at_fault |= is_fault_of_script(status) and status != 0
    if live.gang.ending is not None:
        transition.note_exit(live.gang.ending, member, status, log_tail)
    elif member.state in JOINING:
        if not member.is_killed or member.failure:  # else it was no longer wanted
            why = describe_exit(member, status, log_tail) if status else ended_early(live.job.spec.entry, 0)
            is_at_fault = member.is_at_fault or status == 0
            transition.fail(live, why, Outcome.FAILED if is_at_fault else Outcome.LOST)
    elif member.state is not State.LEFT:
        _lose_member(live, member, status, log_tail)
    if status == OVER_MEMORY:
        live.gang.setback.is_over_memory = True


def _lose_member(live: GangRuntime, member: Member, status: int, log_tail: str) -> None:
    is_kill = status in (-signal.SIGKILL, OUT_OF_MEMORY)
    is_sent_away = is_kill and member.is_killed and not member.failure
    why = "" if is_sent_away else describe_exit(member, status, log_tail)
    if status == 0 and not member.is_killed:
        note_finished(live, None, member)
    elif member.is_at_fault and live.gang.knows(member):
        transition.end(live, Outcome.FAILED, why)
    else:
        note_death(live, member, why)

"""Workers that go: what a worker says before it goes, and what its exit means for the gang."""

from __future__ import annotations

import signal

from swell.executors.exit_status import OUT_OF_MEMORY, OVER_MEMORY
from swell.executors.gang import formation, regrouping, shutdown, training_progress, transition
from swell.executors.gang.ending import early_end, failed_in_step, left_alone, with_rank
from swell.executors.gang.member import Member, State
from swell.executors.gang.runtime import GangRuntime
from swell.executors.gang.timeouts import describe_exit, ended_early, is_fault_of_script
from swell.model.event import Outcome
from swell.wire import messages


# ---------------------------------------------------------------- what a worker says before
def note_left(live: GangRuntime, message: messages.Left, member: Member) -> None:
    member.left_s = live.now_s
    if live.gang.suspension.note_leave(message.generation) or member.state is State.LEAVING:
        member.state = State.LEFT
    else:
        member.failure = f"worker {member.number} left, on an order that had been taken back"


def note_script_failed(live: GangRuntime, message: messages.Failed, member: Member) -> None:
    member.failure = failed_in_step(member, live.gang.formation.group, message)
    member.is_at_fault, member.left_s = True, live.now_s
    if not live.gang.is_ending and live.gang.membership.knows(member):
        shutdown.end(live, Outcome.FAILED, member.failure, spared=member)


def note_finished(live: GangRuntime, member: Member, message: messages.Finished | None) -> None:
    """Training is over for this worker, or the script came to its end without a word (None)."""
    early = early_end(live.job, _steps_of(live, member), message)
    if early and not live.gang.is_ending and _goes_on_without(live, member, message):
        return
    is_leader = live.gang.formation.group[:1] == [member.number]
    if not live.gang.is_ending:
        transition.finish_launch(live)
        shutdown.finish(live, member, early)
    if early and live.gang.ending is not None:
        steps = None if message is None else message.steps
        is_meant = message is not None and not message.is_early
        live.gang.ending.note_early(is_meant, steps, with_rank(member, live.gang.formation.group))
    if message is not None:
        training_progress.note_last(live, message, is_leader)


def _steps_of(live: GangRuntime, member: Member) -> int:
    return max(live.gang.steps, member.heartbeat.steps if member.heartbeat is not None else 0)


def _goes_on_without(live: GangRuntime, member: Member, message: messages.Finished | None) -> bool:
    """Whether others have gone on to a step without this worker, which has left before the end: its script is
    wrong then.

    One that has left in a step that broke, or after a step in which others broke, is lost to them: they make
    that step again.
    """
    members = live.members.values()
    broken = [m.steps for m in members if m.state is State.BROKEN and m.number != member.number]
    if not broken:
        return False
    if member.state is State.BROKEN or (message is not None and message.steps > max(broken)):
        formation.kill(live, [m for m in members if m.number == member.number])
        regrouping.note_death(live, member, f"worker {member.number} had ended before the others")
    else:
        steps = max(broken) if message is None else message.steps
        why = left_alone(with_rank(member, live.gang.formation.group), steps)
        shutdown.end(live, Outcome.FAILED, why)
    return True


# ---------------------------------------------------------------- its exit
def note_exit(live: GangRuntime, member: Member, status: int, log_tail: str) -> None:
    """The member is out of the roster already."""
    member.is_at_fault |= is_fault_of_script(status) and status != 0
    if live.gang.ending is not None:
        live.gang.ending.note_exit(member, status, log_tail)
    elif member.state in (State.STARTING, State.READY):
        _lose_joiner(live, member, status, log_tail)
    elif member.state is not State.LEFT:
        _lose_member(live, member, status, log_tail)
    if status == OVER_MEMORY:
        live.gang.setback.is_over_memory = True


def _lose_joiner(live: GangRuntime, member: Member, status: int, log_tail: str) -> None:
    if member.slot not in live.gang.wanted_slots or (member.is_killed and not member.failure):
        return  # it was no longer wanted
    message = describe_exit(member, status, log_tail)
    if status == 0:
        message = ended_early(live.job.spec.entry, status)
    is_at_fault = member.is_at_fault or status == 0
    transition.fail(live, message, Outcome.FAILED if is_at_fault else Outcome.LOST)


def _lose_member(live: GangRuntime, member: Member, status: int, log_tail: str) -> None:
    is_kill = status in (-signal.SIGKILL, OUT_OF_MEMORY)
    is_sent_away = is_kill and member.is_killed and not member.failure
    why = "" if is_sent_away else describe_exit(member, status, log_tail)
    if status == 0 and not member.is_killed:
        note_finished(live, member, None)
    elif member.is_at_fault and live.gang.membership.knows(member):
        shutdown.end(live, Outcome.FAILED, why)
    else:
        regrouping.note_death(live, member, why)

"""Workers that go: what a worker says before it goes, and what its exit means for the gang."""

from __future__ import annotations

import signal

from swell.executors.exit_status import OUT_OF_MEMORY, OVER_MEMORY
from swell.executors.gang import regrouping, shutdown, transition
from swell.executors.gang.job_context import JobContext
from swell.executors.gang.member import Member, State
from swell.executors.gang.runtime import GangRuntime
from swell.executors.gang.timeouts import describe_exit, ended_early, half, is_fault_of_script
from swell.model.event import Outcome
from swell.wire import messages


# ---------------------------------------------------------------- what a worker says before
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
    if not live.gang.is_ending and live.gang.knows(member):
        shutdown.end(live, Outcome.FAILED, member.failure, spared=member)


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
    if early and not gang.is_ending and _is_lost(live, member, message):
        return
    is_leader = gang.formation.group[:1] == [member.number]
    if not gang.is_ending:
        if not gang.has_started:
            transition.finish_change(live)  # it was in the group, so all were
        shutdown.finish(live, member, early)
    if early and gang.ending is not None:
        steps = None if message is None else message.steps
        is_meant = message is not None and not message.is_early
        shutdown.note_left_early(gang.ending, is_meant, steps, gang.describe(member))
        for other in _broken(live, member):
            shutdown.note_broken(live, gang.ending, other)
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
    return f"the script ended by itself after {about}{steps}{'' if total is None else f' of {total}'} steps"


def _is_lost(live: GangRuntime, member: Member, message: messages.Finished | None) -> bool:
    """Whether the worker has left in a step that broke, or after one in which others broke.

    They make that step again without it.
    """
    broken = [other.steps for other in _broken(live, member)]
    is_lost = member.state is State.BROKEN or (message is not None and message.steps > max(broken, default=0))
    if not broken or not is_lost:
        return False
    live.kill([m for m in live.members.values() if m.number == member.number])
    regrouping.note_death(live, member, f"worker {member.number} had ended before the others")
    return True


def _broken(live: GangRuntime, member: Member) -> list[Member]:
    """The others whose collective has failed."""
    members = live.members.values()
    return [m for m in members if m.state is State.BROKEN and m.number != member.number]


# ---------------------------------------------------------------- its exit
def note_exit(live: GangRuntime, member: Member, status: int, log_tail: str) -> None:
    """The member is none of the live ones any more."""
    member.is_at_fault |= is_fault_of_script(status) and status != 0
    if live.gang.ending is not None:
        shutdown.note_exit(live.gang.ending, member, status, log_tail)
    elif member.state in (State.STARTING, State.READY):
        _lose_joiner(live, member, status, log_tail)
    elif member.state is not State.LEFT:
        _lose_member(live, member, status, log_tail)
    if status == OVER_MEMORY:
        live.gang.setback.is_over_memory = True


def _lose_joiner(live: GangRuntime, member: Member, status: int, log_tail: str) -> None:
    if member.is_killed and not member.failure:
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
        note_finished(live, None, member)
    elif member.is_at_fault and live.gang.knows(member):
        shutdown.end(live, Outcome.FAILED, why)
    else:
        regrouping.note_death(live, member, why)

"""The end of a gang: all its processes are to go, and what is told of it."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from swell.executors.gang.job_context import JobContext
from swell.executors.gang.member import Member, Roster, State
from swell.executors.gang.timeouts import Timeouts, cut_off, describe_exit, stands_still
from swell.model.event import Outcome
from swell.wire import messages


class Ending(msgspec.Struct, kw_only=True):
    """Why all processes of a gang are to go, and until when they may by themselves."""

    outcome: Outcome
    message: str
    since_s: float = 0.0
    kill_at_s: float = 0.0
    left_by: str = ""  #: a worker, before the end condition was met: a failure if others go on without it
    after_steps: int | None = None  #: it left after so many; None: not known

    def note_early(self, is_meant: bool, steps: int | None, who: str) -> None:
        """A worker has left before the end condition was met; `steps` is None if that is not known."""
        if not self.left_by:
            self.left_by, self.after_steps = who, steps
        if not is_meant and self.outcome is Outcome.SUCCEEDED:
            self.outcome = Outcome.ENDED_EARLY

    def note_exit(self, member: Member, status: int, log_tail: str) -> None:
        """The last lines of a script can fail it."""
        if self.outcome.is_of_script and status and not member.is_killed:
            self.message = describe_exit(member, status, log_tail)
            if member.is_at_fault:
                self.outcome = Outcome.FAILED

    def cut_off(
        self, roster: Roster, now_s: float, timeouts: Timeouts, is_stopped: Callable[[int], bool]
    ) -> list[Member]:
        """Whose time is up. What a script that has succeeded still had to do is not done, and told so."""
        late = [
            member
            for member in roster.members.values()
            if not member.is_killed
            and (now_s >= self.kill_at_s or stands_still(member, now_s, timeouts, is_stopped))
        ]
        if late and self.outcome is Outcome.SUCCEEDED:
            told = cut_off(now_s - self.since_s)
            self.message = f"{self.message}; {told}" if self.message else told
        return late


def failed_in_step(member: Member, group: list[int], said: messages.Failed) -> str:
    """Who failed, and when; the worker itself knows only why."""
    if member.number not in group:
        return said.message
    return f"{with_rank(member, group)} failed in step {said.steps + 1}:\n{said.message}"


def with_rank(member: Member, group: list[int]) -> str:
    """`worker 5 (rank 1 of 2)`"""
    rank = f" (rank {group.index(member.number)} of {len(group)})" if member.number in group else ""
    return f"worker {member.number}{rank}"


def waiting(roster: Roster) -> list[Member]:
    """Who waits, at the end of the job, for a group to which no other comes any more.

    Joiners, and members for whom the very last step broke after others had finished it.
    """
    states = (State.STARTING, State.READY, State.BROKEN)
    return [member for member in roster.members.values() if member.state in states]


def left_behind(roster: Roster, is_whole: bool) -> list[Member]:
    """Those, and who was told to join a group that will never form.

    `is_whole`: the latest group did form, for one of its members has finished; all of it will.
    """
    formed = roster.group if is_whole else ()
    forming = [m for m in roster.members.values() if not m.has_state and m.number not in formed]
    return waiting(roster) + forming


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


def left_alone(who: str, steps: int) -> str:
    """Why a job fails of which one worker has come to its end before the end condition, and no other."""
    return (
        f"{who} left its training loop after {steps} steps, and the others went on; all workers are to leave "
        "in the same step: decide by what is the same on all, such as the loss that run.step returns"
    )

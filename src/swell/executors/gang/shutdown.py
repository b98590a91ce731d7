"""The end of a gang: from the decision that it is to end, to what is told when its last process is gone."""

from __future__ import annotations

from swell.executors.gang import training_progress
from swell.executors.gang.gang_record import Ending, Member, State
from swell.executors.gang.runtime import GangRuntime
from swell.executors.gang.timeouts import describe_exit
from swell.model.event import GangEnded, GangSuspended, Outcome
from swell.model.lengths import span


# ------------------------------------------------------------ it begins
def end(live: GangRuntime, outcome: Outcome, message: str, spared: Member | None = None) -> None:
    """All workers are to go, but the spared one, which goes by itself."""
    _begin(live, outcome, message)
    live.send_signal(member for member in live.members.values() if member is not spared)


def finish(live: GangRuntime, member: Member, message: str) -> None:
    """The script of this member has come to its end. The last lines of the others may take a while.

    Where the latest group did form, all of it will come there. Who was told to join one that will never form
    is killed.
    """
    _begin(live, Outcome.SUCCEEDED, message)
    latest = live.gang.formation
    formed = latest.group if member.whole_round == latest.round else ()
    forming = [m for m in live.members.values() if not m.has_state and m.number not in formed]
    live.kill(_waiting(live) + forming)


def stop(live: GangRuntime) -> None:
    """The head wants it. A script that has succeeded need not come to its last lines."""
    ending = live.gang.ending
    if ending is None:
        end(live, Outcome.STOPPED, "")
    else:
        ending.kill_at_s = min(ending.kill_at_s, live.now_s + live.settings.stop_s)
        live.send_signal(live.members.values())


def _begin(live: GangRuntime, outcome: Outcome, message: str) -> None:
    limit_s = live.settings.finish_s if outcome.is_of_script else live.settings.stop_s
    live.gang.ending = Ending(
        outcome=outcome, message=message, since_s=live.now_s, kill_at_s=live.now_s + limit_s
    )


# ------------------------------------------------------------ while workers are left
def note_left_early(ending: Ending, is_meant: bool, steps: int | None, who: str) -> None:
    """A worker has left before the end condition was met; `steps` is None if that is not known."""
    if not ending.left_by:
        ending.left_by, ending.after_steps = who, steps
    if not is_meant and ending.outcome is Outcome.SUCCEEDED:
        ending.outcome = Outcome.ENDED_EARLY


def note_broken(live: GangRuntime, ending: Ending, member: Member) -> None:
    """A collective of this member failed: the group that some still wait for will not form.

    If it had gone on after another one left before the end, the script is wrong.
    """
    steps = member.steps if ending.after_steps is None else ending.after_steps
    if ending.outcome.is_of_script and ending.left_by and member.steps >= steps:
        why = (
            f"{ending.left_by} left its training loop after {steps} steps, and the others went on; all "
            "workers are to leave in the same step: decide by what is the same on all, such as the loss that "
            "run.step returns"
        )
        end(live, Outcome.FAILED, why)
    else:
        live.kill(_waiting(live))


def note_exit(ending: Ending, member: Member, status: int, log_tail: str) -> None:
    """The last lines of a script can fail it."""
    if ending.outcome.is_of_script and status and not member.is_killed:
        ending.message = describe_exit(member, status, log_tail)
        if member.is_at_fault:
            ending.outcome = Outcome.FAILED


def _waiting(live: GangRuntime) -> list[Member]:
    """Who waits for a group to which no other comes any more.

    Joiners, and members for whom the very last step broke after others had finished it.
    """
    states = (State.STARTING, State.READY, State.BROKEN)
    return [member for member in live.members.values() if member.state in states]


def kill_late(live: GangRuntime, ending: Ending) -> None:
    """Kill whose time is up. What a script that has succeeded still had to do is not done, and told so."""
    is_late = live.now_s >= ending.kill_at_s
    late = [member for member in live.members.values() if is_late and not member.is_killed]
    if late and ending.outcome is Outcome.SUCCEEDED:
        told = f"succeeded, but its last lines were cut off after {span(live.now_s - ending.since_s)}"
        ending.message = f"{ending.message}; {told}" if ending.message else told
    live.kill(late)


# ------------------------------------------------------------ every process is gone
def close(live: GangRuntime) -> None:
    """Report the end."""
    gang, ending = live.gang, live.gang.ending
    training_progress.report_last(live, ending is not None and ending.outcome.is_of_script)
    facts = live.facts()
    if ending is None and gang.is_safe:
        gang.replies.end = GangSuspended(**facts, steps=gang.saved_steps)
    else:
        outcome = Outcome.LOST if ending is None else ending.outcome
        is_to_go_on = outcome in (Outcome.LOST, Outcome.STOPPED)
        gang.replies.end = GangEnded(
            **facts,
            outcome=outcome,
            steps=gang.saved_steps if is_to_go_on else gang.steps,
            message=(gang.setback.why or "every worker is gone") if ending is None else ending.message,
            is_over_memory=gang.setback.is_over_memory and outcome is Outcome.LOST,
        )
    live.reply(gang.replies.end)

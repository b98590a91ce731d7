"""The end of a gang: from the decision that it is to end, to what is told when its last process is gone."""

from __future__ import annotations

from swell.executors.gang import formation, training_progress
from swell.executors.gang.ending import Ending, left_alone, left_behind, waiting
from swell.executors.gang.member import Member
from swell.executors.gang.runtime import GangRuntime
from swell.model.event import GangEnded, GangSuspended, Outcome


# ------------------------------------------------------------ it begins
def end(live: GangRuntime, outcome: Outcome, message: str, spared: Member | None = None) -> None:
    """All workers are to go, but the spared one, which goes by itself."""
    _begin(live, outcome, message)
    formation.terminate(live, (member for member in live.members.values() if member is not spared))


def finish(live: GangRuntime, member: Member, message: str) -> None:
    """The script of this member has come to its end. The last lines of the others may take a while."""
    _begin(live, Outcome.SUCCEEDED, message)
    is_whole = member.whole_round == live.gang.formation.round
    formation.kill(live, left_behind(live.roster, is_whole))


def stop(live: GangRuntime) -> None:
    """The head wants it. A script that has succeeded need not come to its last lines."""
    ending = live.gang.ending
    if ending is None:
        end(live, Outcome.STOPPED, "")
    else:
        ending.kill_at_s = min(ending.kill_at_s, live.now_s + live.timeouts.stop_s)
        formation.terminate(live, live.members.values())


def _begin(live: GangRuntime, outcome: Outcome, message: str) -> None:
    limit_s = live.timeouts.finish_s if outcome.is_of_script else live.timeouts.stop_s
    live.gang.ending = Ending(
        outcome=outcome, message=message, since_s=live.now_s, kill_at_s=live.now_s + limit_s
    )


# ------------------------------------------------------------ while workers are left
def note_broken(live: GangRuntime, ending: Ending, member: Member) -> None:
    """A collective of this member failed: the group that some still wait for will not form.

    If it had gone on after another one left before the end, the script is wrong.
    """
    steps = member.steps if ending.after_steps is None else ending.after_steps
    if ending.outcome.is_of_script and ending.left_by and member.steps >= steps:
        end(live, Outcome.FAILED, left_alone(ending.left_by, steps))
    else:
        formation.kill(live, waiting(live.roster))


def kill_late(live: GangRuntime, ending: Ending) -> None:
    late = ending.cut_off(live.roster, live.now_s, live.timeouts, live.is_stopped)
    formation.kill(live, late)


# ------------------------------------------------------------ every process is gone
def close(live: GangRuntime) -> None:
    """Report the end."""
    gang, ending = live.gang, live.gang.ending
    training_progress.report_last(live, ending is not None and ending.outcome.is_of_script)
    if ending is None and gang.is_safe:
        live.replies.close(GangSuspended(**live.replies.facts(), steps=gang.saved_steps))
    elif ending is None:
        _tell_end(live, Outcome.LOST, gang.setback.why or "every worker is gone")
    else:
        _tell_end(live, ending.outcome, ending.message)


def _tell_end(live: GangRuntime, outcome: Outcome, message: str) -> None:
    gang, is_to_go_on = live.gang, outcome in (Outcome.LOST, Outcome.STOPPED)
    live.replies.close(
        GangEnded(
            **live.replies.facts(),
            outcome=outcome,
            steps=gang.saved_steps if is_to_go_on else gang.steps,
            message=message,
            is_over_memory=gang.setback.is_over_memory and outcome is Outcome.LOST,
        )
    )

"""The change of a gang that is under way, from the head's command to the answer, and what is saved.

Then the gang's end: from the decision to what is told when its last process is gone.
"""

from __future__ import annotations

from swell.executors.gang import training_progress
from swell.executors.gang.gang_record import (
    JOINING,
    GangEnd,
    Member,
    State,
    cut_slots,
    describe_exit,
    flatten,
)
from swell.executors.gang.runtime import GangRuntime
from swell.model import event as events
from swell.model.command import LaunchGang, Reconfigure
from swell.model.gang_state import CHANGING, GangState
from swell.model.quantities import format_bytes, span
from swell.wire import messages


# ------------------------------------------------------------ it begins
def resize(live: GangRuntime, command: LaunchGang | Reconfigure) -> None:
    """Once the head has heard of a loss it asks first for the gang as it is left.

    Any other change was on its way when the loss was told: the head has given it up, and takes devices that
    it names for free.
    """
    gang, spec, target = live.gang, live.job.spec, command.target
    refusal = ""
    if gang.replies.losses and set(target.devices) != set(flatten(gang.slots)):
        refusal = "workers had been lost when this was asked for"
    elif gang.has_started and not live.job.may_have(target.configuration.global_batch):
        refusal = f"its batch cannot become {target.configuration.global_batch}"
    if refusal:
        live.reply(events.ResizeFailed(**live.facts(), message=refusal))
        return
    gang.replies.losses.clear()  # the head knows of each of them
    gang.mean_time_to_loss_s = target.mean_time_to_loss_s
    kept = [member.slot for member in gang.by_rank() if member.state is not State.LEFT]
    gang.become(GangState.FORMING)
    gang.wanted_slots = cut_slots(target.devices, spec.devices_per_worker, kept)
    gang.wanted_configuration = target.configuration


def suspend(live: GangRuntime) -> None:
    live.gang.replies.losses.clear()  # while it is being suspended the head names no devices
    live.gang.become(GangState.SAVING)


# ------------------------------------------------------------ it fails
def fail(live: GangRuntime, why: str, outcome: events.Outcome) -> None:
    """What is wanted cannot be started; a gang that has not started yet ends with this outcome."""
    gang = live.gang
    if not gang.has_started:
        end(live, outcome, why)
        return
    gang.want_as_is()
    if gang.state in CHANGING:
        gang.become(GangState.SHRINKING, failure=why)


def cut_back(live: GangRuntime, why: str) -> None:
    """Tell the head what is lost, or what failed, now that only workers are left that it knows.

    A suspend is still to be carried out, and so is a change to what is left: a repair, or another batch.
    """
    gang, facts = live.gang, live.facts()
    staffed = {member.slot for member in live.members.values() if member.state is not State.LEFT}
    lost = flatten(slot for slot in gang.slots if slot not in staffed)
    gang.slots = tuple(slot for slot in gang.slots if slot in staffed)
    is_given_up = gang.state in (*CHANGING, GangState.SHRINKING) and (
        lost or gang.state is GangState.SHRINKING or set(gang.wanted_slots) != set(gang.slots)
    )
    if lost:
        live.reply(events.WorkersLost(**facts, devices=lost, message=why))
    elif is_given_up:
        live.reply(events.ResizeFailed(**facts, message=gang.failure or why))
    if is_given_up:
        gang.become(GangState.TRAINING)
    gang.wanted_slots = gang.slots
    if gang.state not in CHANGING:  # else the same members are still to run in another way
        gang.wanted_configuration = gang.configuration


# ------------------------------------------------------------ it is done
def finish_change(live: GangRuntime) -> None:
    """The gang is what it should be: answer the head, if it waits."""
    gang, was_asked = live.gang, live.gang.state is not GangState.TRAINING
    done = events.GangResized if gang.has_started else events.GangStarted
    gang.setback.num_failed_rounds = 0
    gang.slots = gang.wanted_slots
    gang.become(GangState.TRAINING)
    gang.configuration = live.job.configuration_of(len(gang.slots), gang.wanted_configuration)
    if was_asked:
        gang.generation = gang.replies.generation
        gang.workers = {member.number: member.slot for member in gang.by_rank()}
        live.reply(done(**live.facts(), steps=gang.steps, pids=live.pids))


# ------------------------------------------------------------ what is saved
#: The topic of warnings that end with the next checkpoint.
CHECKPOINT = "checkpoint"
#: The topic of the warning that checkpoints were lost. It stands: what was trained after them is lost.
DAMAGED = "damaged checkpoint"


def note_saved(live: GangRuntime, message: messages.CheckpointSaved) -> None:
    live.gang.saved_steps = message.steps
    size = format_bytes(message.num_bytes)
    lack = f"its next checkpoint ({size}) does not fit on the disk of {message.path}; make room there"
    live.warn("" if message.has_room else lack, CHECKPOINT)


def note_damaged(live: GangRuntime, message: messages.CheckpointDamaged) -> None:
    live.gang.saved_steps = message.sound_steps
    live.warn(message.message, about=DAMAGED)


def note_save_failed(live: GangRuntime, message: messages.SaveFailed) -> None:
    gang = live.gang
    if gang.is_save_out and gang.ending is None and not message.is_behind:
        gang.become(GangState.TRAINING)
        gang.formation.is_saving = False
        live.reply(events.SuspendFailed(**live.facts(), message=message.message))
        gang.replies.asked = None  # the same command again is no repetition, but another try
    else:
        # The same text until one is saved: each failure would be a line in the journal, on a full disk.
        since = f"since step {gang.saved_steps}"
        live.warn(message.message.replace(f"at step {message.steps}", since), CHECKPOINT)


# ------------------------------------------------------------ the end begins
def end(live: GangRuntime, outcome: events.Outcome, message: str, spared: Member | None = None) -> None:
    """All workers are to go, but the spared one, which goes by itself."""
    _begin_end(live, outcome, message)
    live.send_signal(member for member in live.members.values() if member is not spared)


def finish(live: GangRuntime, member: Member, message: str) -> None:
    """The script of this member has come to its end. The last lines of the others may take a while.

    Where the latest group did form, all of it will come there. Who was told to join one that will never form
    is killed.
    """
    _begin_end(live, events.Outcome.SUCCEEDED, message)
    latest = live.gang.formation
    formed = latest.group if member.whole_round == latest.round else ()
    forming = [m for m in live.members.values() if not m.has_state and m.number not in formed]
    live.kill(_waiting(live) + forming)


def stop(live: GangRuntime) -> None:
    """The head wants it. A script that has succeeded need not come to its last lines."""
    ending = live.gang.ending
    if ending is None:
        end(live, events.Outcome.STOPPED, "")
    else:
        ending.kill_at_s = min(ending.kill_at_s, live.now_s + live.settings.stop_s)
        live.send_signal(live.members.values())


def _begin_end(live: GangRuntime, outcome: events.Outcome, message: str) -> None:
    limit_s = live.settings.finish_s if outcome.is_of_script else live.settings.stop_s
    live.gang.become(GangState.STOPPING)
    live.gang.ending = GangEnd(
        outcome=outcome, message=message, since_s=live.now_s, kill_at_s=live.now_s + limit_s
    )


# ------------------------------------------------------------ while workers are left
def note_left_early(ending: GangEnd, is_meant: bool, steps: int | None, how: str) -> None:
    """A worker has left before the end condition was met; `steps` is None if that is not known."""
    if not ending.left_by:
        ending.left_by, ending.after_steps = how, steps
    if not is_meant and ending.outcome is events.Outcome.SUCCEEDED:
        ending.outcome = events.Outcome.ENDED_EARLY


def note_broken(live: GangRuntime, ending: GangEnd, member: Member) -> None:
    """A collective of this member failed: the group that some still wait for will not form.

    If it had gone on after another one left before the end, the script is wrong.
    """
    steps = member.steps if ending.after_steps is None else ending.after_steps
    if ending.outcome.is_of_script and ending.left_by and member.steps >= steps:
        why = (
            f"{ending.left_by} after {steps} steps, and the others went on; all workers are to leave in the "
            "same step: decide by what is the same on all, such as the loss that run.backward returns"
        )
        end(live, events.Outcome.FAILED, why)
    else:
        live.kill(_waiting(live))


def note_exit(ending: GangEnd, member: Member, status: int, log_tail: str) -> None:
    """The last lines of a script can fail it."""
    if ending.outcome.is_of_script and status and not member.is_killed:
        ending.message = describe_exit(member, status, log_tail)
        if member.is_at_fault:
            ending.outcome = events.Outcome.FAILED


def _waiting(live: GangRuntime) -> list[Member]:
    """Who waits for a group to which no other comes any more.

    Joiners, and members for whom the very last step broke after others had finished it.
    """
    states = (*JOINING, State.BROKEN)
    return [member for member in live.members.values() if member.state in states]


def kill_late(live: GangRuntime, ending: GangEnd) -> None:
    """Kill whose time is up. What a script that has succeeded still had to do is not done, and told so."""
    is_late = live.now_s >= ending.kill_at_s
    late = [member for member in live.members.values() if is_late and not member.is_killed]
    if late and ending.outcome is events.Outcome.SUCCEEDED:
        told = f"succeeded, but its last lines were cut off after {span(live.now_s - ending.since_s)}"
        ending.message = f"{ending.message}; {told}" if ending.message else told
    live.kill(late)


# ------------------------------------------------------------ every process is gone
def close(live: GangRuntime) -> None:
    """Report the end."""
    gang, ending = live.gang, live.gang.ending
    training_progress.report_last(live, ending is not None and ending.outcome.is_of_script)
    facts = live.facts()
    is_saved = gang.is_safe
    gang.become(GangState.ENDED)
    if is_saved:
        live.reply(events.GangSuspended(**facts, steps=gang.saved_steps))
        return
    outcome = events.Outcome.LOST if ending is None else ending.outcome
    is_to_go_on = outcome in (events.Outcome.LOST, events.Outcome.STOPPED)
    live.reply(
        events.GangEnded(
            **facts,
            outcome=outcome,
            steps=gang.saved_steps if is_to_go_on else gang.steps,
            message=(gang.setback.why or "every worker is gone") if ending is None else ending.message,
            is_over_memory=gang.setback.is_over_memory and outcome is events.Outcome.LOST,
        )
    )

"""The change of a gang that is under way, from the head's command to the answer, and what it saves."""

from __future__ import annotations

from swell.executors.gang import shutdown
from swell.executors.gang.gang_record import ChangeAim, PendingChange, answer
from swell.executors.gang.job_context import configuration_of_group, refusal
from swell.executors.gang.member import State, by_rank, cut_slots
from swell.executors.gang.runtime import GangRuntime
from swell.model.command import LaunchGang, Reconfigure
from swell.model.event import Outcome, ResizeFailed
from swell.model.sizes import format_bytes
from swell.model.target import Configuration
from swell.wire import messages


def configuration_of(live: GangRuntime, num_workers: int) -> Configuration:
    """How so many workers of the gang should run."""
    return configuration_of_group(num_workers, live.gang.wanted_configuration, live.job.spec)


# ------------------------------------------------------------ it begins
def resize(live: GangRuntime, command: LaunchGang | Reconfigure) -> None:
    gang, spec, target = live.gang, live.job.spec, command.target
    if not gang.membership.is_informed(target.devices):
        why = "workers had been lost when this was asked for"
        live.replies.reply(ResizeFailed(**live.replies.facts(), message=why))
        return
    gang.replies.losses.clear()  # the head knows of each of them
    gang.mean_time_to_loss_s = target.mean_time_to_loss_s
    aim = ChangeAim.RESIZE
    if isinstance(command, LaunchGang):
        aim, gang.membership.configuration = ChangeAim.LAUNCH, target.configuration
    gang.membership.change = PendingChange(aim=aim, since_s=live.now_s)
    gang.suspension.clear()
    kept = [member.slot for member in by_rank(live.roster) if member.state is not State.LEFT]
    if obstacle := refusal(target.configuration, spec):
        fail(live, obstacle, Outcome.FAILED)
        return
    try:
        gang.wanted_slots = cut_slots(target.devices, spec.devices_per_worker, kept)
    except ValueError as error:
        fail(live, str(error), Outcome.FAILED)
    else:
        gang.wanted_configuration = target.configuration


def suspend(live: GangRuntime) -> None:
    gang, membership = live.gang, live.gang.membership
    if not membership.has_started:  # the checkpoint that it was to begin from is all there is
        shutdown.end(live, Outcome.STOPPED, "")
        return
    is_asked_again = membership.is_suspending
    membership.change = PendingChange(aim=ChangeAim.SUSPEND, since_s=live.now_s)
    membership.is_unheard = False  # while it is being suspended the head names no devices
    gang.replies.losses.clear()
    if not is_asked_again:
        gang.suspension.clear()
        members = live.roster.in_group()
        gang.wanted_slots = tuple(m.slot for m in members if m.state is not State.LEAVING)
        gang.wanted_configuration = membership.configuration


# ------------------------------------------------------------ it fails
def fail(live: GangRuntime, why: str, outcome: Outcome) -> None:
    """Undo the change; a gang that has not started yet ends with this outcome."""
    if live.gang.membership.has_started:
        undo(live, why)
    else:
        shutdown.end(live, outcome, why)


def undo(live: GangRuntime, why: str) -> None:
    """Back to what the head believes the gang to be, once."""
    gang, membership = live.gang, live.gang.membership
    change = membership.change
    if change is not None and not change.failure:
        change.failure = why
        gang.wanted_slots = membership.slots
        if gang.restarts is None:
            gang.wanted_slots = membership.staying(live.roster, gang.setback.is_open)
        gang.wanted_configuration = membership.configuration
        if not gang.wanted_slots:
            shutdown.end(live, Outcome.LOST, why)


def cut_back(live: GangRuntime, why: str) -> None:
    """The group broke, and of its workers only those are left that the head knows."""
    gang, membership = live.gang, live.gang.membership
    change = membership.cut_back(why, live.roster, gang.wanted_slots)
    if change is not None:
        live.replies.reply(answer(change, live.replies))
    gang.wanted_slots = membership.slots
    if not membership.may_start_workers:  # else the same members are still to run in another way
        gang.wanted_configuration = membership.configuration


# ------------------------------------------------------------ it is done
def finish_change(live: GangRuntime) -> None:
    """The gang is what it should be: answer the head, if it waits."""
    gang, membership = live.gang, live.gang.membership
    change = membership.settle(gang.wanted_slots, configuration_of(live, len(gang.wanted_slots)))
    gang.setback.num_failed_rounds = 0
    if change is None:
        return
    if change.aim is ChangeAim.RESIZE:
        # what the first step took is told under the old number: now or never
        live.reporting.flush()
    if not change.failure:
        membership.generation = gang.replies.generation
    live.replies.reply(answer(change, live.replies, gang.steps, live.pids))


def finish_launch(live: GangRuntime) -> None:
    """A member has finished. It was in the group, so all were."""
    membership = live.gang.membership
    change = membership.change
    if change is not None and change.aim is ChangeAim.LAUNCH and not membership.has_started:
        finish_change(live)


#: The topic of warnings that end with the next checkpoint.
CHECKPOINT = "checkpoint"
#: The topic of the warning that checkpoints were lost. It stands: what was trained after them is lost.
DAMAGED = "damaged checkpoint"


def note_saved(live: GangRuntime, message: messages.CheckpointSaved) -> None:
    live.gang.saved_steps = message.steps
    live.gang.suspension.note_save()
    size = format_bytes(message.num_bytes)
    lack = f"its next checkpoint ({size}) does not fit on the disk of {message.path}; make room there"
    live.replies.warn("" if message.has_room else lack, CHECKPOINT)


def note_damaged(live: GangRuntime, message: messages.CheckpointDamaged) -> None:
    live.gang.saved_steps = message.sound_steps
    live.replies.warn(message.message, about=DAMAGED)


def note_save_failed(live: GangRuntime, message: messages.SaveFailed) -> None:
    gang = live.gang
    if gang.suspension.is_out and not gang.is_ending and not message.is_behind:
        gang.suspension.clear()
        gang.replies.asked = None  # the same command again is no repetition, but another try
        undo(live, message.message)
    else:
        # The same text until one is saved: each failure would be a line in the journal, on a full disk.
        since = f"since step {gang.saved_steps}"
        live.replies.warn(message.message.replace(f"at step {message.steps}", since), CHECKPOINT)

"""The change of a gang that is under way, from the head's command to the answer, and what it saves."""

from __future__ import annotations

from swell.executors.gang import shutdown
from swell.executors.gang.gang_record import PendingChange, State, cut_slots, flatten
from swell.executors.gang.job_context import check_configuration
from swell.executors.gang.runtime import GangRuntime
from swell.model.command import LaunchGang, Reconfigure
from swell.model.event import (
    GangResized,
    GangStarted,
    Outcome,
    ResizeFailed,
    SuspendFailed,
    WorkersLost,
)
from swell.model.sizes import format_bytes
from swell.wire import messages


# ------------------------------------------------------------ it begins
def resize(live: GangRuntime, command: LaunchGang | Reconfigure) -> None:
    """Once the head has heard of a loss it asks first for the gang as it is left.

    Any other change was on its way when the loss was told: the head has given it up, and takes devices that
    it names for free.
    """
    gang, spec, target = live.gang, live.job.spec, command.target
    if gang.replies.losses and set(target.devices) != set(flatten(gang.slots)):
        _refuse(live, "workers had been lost when this was asked for")
        return
    gang.replies.losses.clear()  # the head knows of each of them
    gang.mean_time_to_loss_s = target.mean_time_to_loss_s
    kept = [member.slot for member in gang.by_rank() if member.state is not State.LEFT]
    try:
        check_configuration(target.configuration, spec)
        wanted = cut_slots(target.devices, spec.devices_per_worker, kept)
    except ValueError as error:
        _refuse(live, str(error))
        return
    gang.change = PendingChange()
    gang.wanted_slots, gang.wanted_configuration = wanted, target.configuration


def _refuse(live: GangRuntime, why: str) -> None:
    if live.gang.has_started:
        live.reply(ResizeFailed(**live.facts(), message=why))
    else:
        shutdown.end(live, Outcome.FAILED, why)


def suspend(live: GangRuntime) -> None:
    live.gang.replies.losses.clear()  # while it is being suspended the head names no devices
    live.gang.change = PendingChange(is_suspend=True)


# ------------------------------------------------------------ it fails
def fail(live: GangRuntime, why: str, outcome: Outcome) -> None:
    """What is wanted cannot be started; a gang that has not started yet ends with this outcome."""
    if not live.gang.has_started:
        shutdown.end(live, outcome, why)
    elif live.gang.change is not None:
        live.gang.change.failure = live.gang.change.failure or why


def cut_back(live: GangRuntime, why: str) -> None:
    """Tell the head what is lost, or what failed, now that only workers are left that it knows.

    A suspend is still to be carried out, and so is a change to what is left: a repair, or another batch.
    """
    gang, change, facts = live.gang, live.gang.change, live.facts()
    staffed = {member.slot for member in live.members.values() if member.state is not State.LEFT}
    lost = flatten(slot for slot in gang.slots if slot not in staffed)
    gang.slots = tuple(slot for slot in gang.slots if slot in staffed)
    is_of_others = set(gang.wanted_slots) != set(gang.slots)
    if lost:
        gang.change = change if gang.is_suspending else None
        live.reply(WorkersLost(**facts, devices=lost, message=why))
    elif change is not None and not change.is_suspend and (change.failure or is_of_others):
        gang.change = None
        live.reply(ResizeFailed(**facts, message=change.failure or why))
    gang.wanted_slots = gang.slots
    if not gang.may_start_workers:  # else the same members are still to run in another way
        gang.wanted_configuration = gang.configuration


# ------------------------------------------------------------ it is done
def finish_change(live: GangRuntime) -> None:
    """The gang is what it should be: answer the head, if it waits."""
    gang, change = live.gang, live.gang.change
    done = GangResized if gang.has_started else GangStarted
    gang.setback.num_failed_rounds = 0
    gang.slots, gang.change = gang.wanted_slots, None
    gang.configuration = live.job.configuration_of(len(gang.slots), gang.wanted_configuration)
    if change is not None:
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
    if gang.is_save_out and not gang.is_ending and not message.is_behind:
        gang.change, gang.formation.is_saving = None, False
        live.reply(SuspendFailed(**live.facts(), message=message.message))
        gang.replies.asked = None  # the same command again is no repetition, but another try
    else:
        # The same text until one is saved: each failure would be a line in the journal, on a full disk.
        since = f"since step {gang.saved_steps}"
        live.warn(message.message.replace(f"at step {message.steps}", since), CHECKPOINT)

"""The change of a gang that is under way, from the head's command to the answer, and what it saves."""

from __future__ import annotations

from swell.executors.gang import shutdown
from swell.executors.gang.gang_record import ChangeAim, PendingChange
from swell.executors.gang.job_context import configuration_of_group, refusal
from swell.executors.gang.member import Member, Slot, State, cut_slots, flatten
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
from swell.model.target import Configuration
from swell.wire import messages


def configuration_of(live: GangRuntime, num_workers: int) -> Configuration:
    """How so many workers of the gang should run."""
    return configuration_of_group(num_workers, live.gang.wanted_configuration, live.job.spec)


# ------------------------------------------------------------ it begins
def resize(live: GangRuntime, command: LaunchGang | Reconfigure) -> None:
    """Once the head has heard of a loss it asks first for the gang as it is left.

    Any other change was on its way when the loss was told: the head has given it up, and takes devices that
    it names for free.
    """
    gang, spec, target = live.gang, live.job.spec, command.target
    if gang.replies.losses and set(target.devices) != set(flatten(gang.slots)):
        why = "workers had been lost when this was asked for"
        live.replies.reply(ResizeFailed(**live.replies.facts(), message=why))
        return
    gang.replies.losses.clear()  # the head knows of each of them
    gang.mean_time_to_loss_s = target.mean_time_to_loss_s
    aim = ChangeAim.RESIZE
    if isinstance(command, LaunchGang):
        aim, gang.configuration = ChangeAim.LAUNCH, target.configuration
    gang.change = PendingChange(aim=aim, since_s=live.now_s)
    kept = [member.slot for member in gang.by_rank() if member.state is not State.LEFT]
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
    gang = live.gang
    if not gang.has_started:  # the checkpoint that it was to begin from is all there is
        shutdown.end(live, Outcome.STOPPED, "")
        return
    gang.replies.losses.clear()  # while it is being suspended the head names no devices
    if gang.is_suspending and gang.change is not None:
        gang.change.since_s = live.now_s
        return
    gang.change = PendingChange(aim=ChangeAim.SUSPEND, since_s=live.now_s)
    gang.wanted_slots = tuple(m.slot for m in gang.in_group() if m.state is not State.LEAVING)
    gang.wanted_configuration = gang.configuration


# ------------------------------------------------------------ it fails
def fail(live: GangRuntime, why: str, outcome: Outcome) -> None:
    """Undo the change; a gang that has not started yet ends with this outcome."""
    if live.gang.has_started:
        undo(live, why)
    else:
        shutdown.end(live, outcome, why)


def undo(live: GangRuntime, why: str) -> None:
    """Back to what the head believes the gang to be, once.

    Of a broken group those stay, too, that were told to leave it and had not yet.
    """
    gang, change = live.gang, live.gang.change
    if change is not None and not change.failure:
        change.failure = why
        gang.wanted_slots, gang.wanted_configuration = gang.slots, gang.configuration
        if gang.restarts is None:
            going = (State.LEFT,) if gang.setback.is_open else (State.LEAVING, State.LEFT)
            gang.wanted_slots = _staying(live, going)
        if not gang.wanted_slots:
            shutdown.end(live, Outcome.LOST, why)


def _staying(live: GangRuntime, going: tuple[State, ...]) -> tuple[Slot, ...]:
    """The settled slots on which a worker stands that is not going."""
    taken = {member.slot for member in live.members.values() if member.state not in going}
    return tuple(slot for slot in live.gang.slots if slot in taken)


def cut_back(live: GangRuntime, why: str) -> None:
    """The group broke, and of its workers only those are left that the head knows: tell it what is lost.

    A suspend is still to be carried out, and so is a change to what is left: a repair, or another batch.
    """
    gang, change, facts = live.gang, live.gang.change, live.replies.facts()
    lost = _become(live, _staying(live, (State.LEFT,)))
    is_of_others = set(gang.wanted_slots) != set(gang.slots)
    if lost:
        gang.change = change if gang.is_suspending else None
        live.replies.reply(WorkersLost(**facts, devices=lost, message=why))
    elif change is not None and change.aim is ChangeAim.RESIZE and (change.failure or is_of_others):
        gang.change = None
        live.replies.reply(ResizeFailed(**facts, message=change.failure or why))
    gang.wanted_slots = gang.slots
    if not gang.may_start_workers:  # else the same members are still to run in another way
        gang.wanted_configuration = gang.configuration


def _become(live: GangRuntime, slots: tuple[Slot, ...]) -> tuple[str, ...]:
    """The settled gang is this; returns devices of workers that it no longer has."""
    lost = flatten(slot for slot in live.gang.slots if slot not in slots)
    live.gang.slots = slots
    return lost


# ------------------------------------------------------------ it is done
def finish_change(live: GangRuntime) -> None:
    """The gang is what it should be: answer the head, if it waits."""
    gang, change = live.gang, live.gang.change
    gang.setback.num_failed_rounds = 0
    lost = _become(live, gang.wanted_slots)
    gang.configuration, gang.change = configuration_of(live, len(gang.wanted_slots)), None
    if change is None:
        return
    facts = live.replies.facts()
    if change.failure and lost:
        live.replies.reply(WorkersLost(**facts, devices=lost, message=change.failure))
    elif change.failure:
        failed = SuspendFailed if change.aim is ChangeAim.SUSPEND else ResizeFailed
        live.replies.reply(failed(**facts, message=change.failure))
    else:
        gang.generation = live.gang.replies.generation
        done = GangStarted if change.aim is ChangeAim.LAUNCH else GangResized
        live.replies.reply(done(**facts, steps=gang.steps, pids=live.pids))


# ------------------------------------------------------------ what is saved
#: The topic of warnings that end with the next checkpoint.
CHECKPOINT = "checkpoint"
#: The topic of the warning that checkpoints were lost. It stands: what was trained after them is lost.
DAMAGED = "damaged checkpoint"


def note_saved(live: GangRuntime, message: messages.CheckpointSaved, member: Member) -> None:
    change, live.gang.saved_steps = live.gang.change, message.steps
    if change is not None and change.save is not None:
        change.save.is_saved = True
    size = format_bytes(message.num_bytes)
    lack = f"its next checkpoint ({size}) does not fit on the disk of {message.path}; make room there"
    live.replies.warn("" if message.has_room else lack, CHECKPOINT)


def note_damaged(live: GangRuntime, message: messages.CheckpointDamaged, member: Member) -> None:
    live.gang.saved_steps = message.sound_steps
    live.replies.warn(message.message, about=DAMAGED)


def note_save_failed(live: GangRuntime, message: messages.SaveFailed, member: Member) -> None:
    gang = live.gang
    if gang.change is not None and gang.is_save_out and not gang.is_ending and not message.is_behind:
        gang.change.save = None
        gang.replies.asked = None  # the same command again is no repetition, but another try
        undo(live, message.message)
    else:
        # The same text until one is saved: each failure would be a line in the journal, on a full disk.
        since = f"since step {gang.saved_steps}"
        live.replies.warn(message.message.replace(f"at step {message.steps}", since), CHECKPOINT)

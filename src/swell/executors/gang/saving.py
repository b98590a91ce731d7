"""Checkpoints of a gang: which was saved, which was not, and what that means for a suspend."""

from __future__ import annotations

from swell.executors.gang import transition
from swell.executors.gang.runtime import GangRuntime
from swell.model.sizes import format_bytes
from swell.wire import messages

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
        transition.undo(live, message.message)
    else:
        # The same text until one is saved: each failure would be a line in the journal, on a full disk.
        since = f"since step {gang.saved_steps}"
        live.replies.warn(message.message.replace(f"at step {message.steps}", since), CHECKPOINT)

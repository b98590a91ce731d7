"""Checkpoints of a gang: which was saved, which was not, and what that means for a suspend."""

from __future__ import annotations

from dataclasses import dataclass

from swell.executors.gang.replies import CommandReplies
from swell.executors.gang.shutdown import Shutdown
from swell.executors.gang.suspension import Suspension
from swell.executors.gang.training_progress import TrainingProgress
from swell.executors.gang.transition import Transition
from swell.model.sizes import format_bytes
from swell.wire import messages

#: The topic of warnings that end with the next checkpoint.
CHECKPOINT = "checkpoint"
#: The topic of the warning that checkpoints were lost. It stands: what was trained after them is lost.
DAMAGED = "damaged checkpoint"


@dataclass(slots=True)
class Saving:
    dialogue: CommandReplies
    suspension: Suspension
    progress: TrainingProgress
    transition: Transition
    shutdown: Shutdown

    def note_saved(self, message: messages.CheckpointSaved) -> None:
        self.progress.saved_steps = message.steps
        self.suspension.note_save()
        size = format_bytes(message.num_bytes)
        lack = f"its next checkpoint ({size}) does not fit on the disk of {message.path}; make room there"
        self.dialogue.warn("" if message.has_room else lack, CHECKPOINT)

    def note_damaged(self, message: messages.CheckpointDamaged) -> None:
        self.progress.saved_steps = message.sound_steps
        self.dialogue.warn(message.message, about=DAMAGED)

    def note_failed(self, message: messages.SaveFailed) -> None:
        if self.suspension.is_out and not self.shutdown.is_under_way:
            self.suspension.clear()
            self.dialogue.forget()
            self.transition.undo(message.message)
        else:
            # The same text until one is saved: each failure would be a line in the journal, on a full disk.
            since = f"since step {self.progress.saved_steps}"
            self.dialogue.warn(message.message.replace(f"at step {message.steps}", since), CHECKPOINT)

"""The change of a gang that is under way: from the head's command to the answer."""

from __future__ import annotations

from dataclasses import dataclass

from swell.executors.gang.member import Roster, Slot, State, by_rank, cut_slots
from swell.executors.gang.membership import ChangeAim, Membership, PendingChange, answer
from swell.executors.gang.open_batch import batch_of, batch_of_group, refusal
from swell.executors.gang.replies import CommandReplies
from swell.executors.gang.setback import Setback
from swell.executors.gang.shutdown import Shutdown
from swell.executors.gang.suspension import Suspension
from swell.executors.gang.training_progress import TrainingProgress
from swell.model.command import LaunchGang, Reconfigure
from swell.model.event import Outcome, ResizeFailed
from swell.model.job import JobSpec


@dataclass(slots=True)
class Transition:
    spec: JobSpec
    dialogue: CommandReplies
    roster: Roster
    membership: Membership
    setback: Setback
    suspension: Suspension
    progress: TrainingProgress
    shutdown: Shutdown
    target: tuple[Slot, ...] = ()  #: the devices of the workers there should be
    batch: int | None = None  #: samples of a step that they should have; None: the job's own batch

    @property
    def is_safe(self) -> bool:
        """The gang is being suspended, and its state is saved."""
        return self.membership.is_suspending and self.suspension.is_safe

    def batch_of_group(self, num_workers: int) -> int | None:
        """Samples of a step that so many workers should have; None: the job's own batch."""
        return batch_of_group(num_workers, self.batch, self.spec)

    # ------------------------------------------------------------ it begins
    def resize(self, command: LaunchGang | Reconfigure) -> None:
        devices = command.target.devices
        if not self.membership.is_informed(devices):
            why = "workers had been lost when this was asked for"
            self.dialogue.reply(ResizeFailed(**self.dialogue.facts(), message=why))
            return
        self.dialogue.note_heard()
        aim = ChangeAim.LAUNCH if isinstance(command, LaunchGang) else ChangeAim.RESIZE
        self.membership.change = PendingChange(aim, self.dialogue.now_s)
        self.suspension.clear()
        kept = [member.slot for member in by_rank(self.roster) if member.state is not State.LEFT]
        if obstacle := refusal(command.target.configuration, self.spec):
            self.fail(obstacle, Outcome.FAILED)
            return
        try:
            self.target = cut_slots(devices, self.spec.devices_per_worker, kept)
            self.batch = batch_of(command.target.configuration, self.spec)
        except ValueError as error:
            self.fail(str(error), Outcome.FAILED)

    def suspend(self) -> None:
        if not self.membership.is_settled:  # the checkpoint that it was to begin from is all there is
            self.shutdown.end(Outcome.STOPPED, "")
            return
        is_asked_again = self.membership.is_suspending
        self.membership.change = PendingChange(ChangeAim.SUSPEND, self.dialogue.now_s)
        self.membership.is_unheard = False  # while it is being suspended the head names no devices
        self.dialogue.note_heard()
        if not is_asked_again:
            self.suspension.clear()
            members = self.roster.in_group()
            self.target = tuple(m.slot for m in members if m.state is not State.LEAVING)
            self.batch = self.membership.batch

    # ------------------------------------------------------------ it fails
    def fail(self, why: str, outcome: Outcome) -> None:
        """Undo the change; a gang that has not started yet ends with this outcome."""
        if self.membership.is_settled:
            self.undo(why)
        else:
            self.shutdown.end(outcome, why)

    def undo(self, why: str) -> None:
        """Back to what the head believes the gang to be, once."""
        change = self.membership.change
        if change is not None and not change.failure:
            change.failure = why
            self.target = self.membership.staying(self.roster, self.setback.is_open)
            self.batch = self.membership.batch
            if not self.target:
                self.shutdown.end(Outcome.LOST, why)

    def cut_back(self, why: str) -> None:
        """The group broke, and of its workers only those are left that the head knows."""
        change = self.membership.cut_back(why, self.roster, self.target)
        if change is not None:
            self.dialogue.reply(answer(change, self.dialogue))
        self.target = self.membership.slots
        if not self.membership.is_growing:  # else the same members are still to have another batch
            self.batch = self.membership.batch

    # ------------------------------------------------------------ it is done
    def settle(self) -> None:
        """The gang is what it should be: answer the head, if it waits."""
        change = self.membership.settle(self.target, self.batch_of_group(len(self.target)))
        self.setback.num_failed_rounds = 0
        if change is None:
            return
        if change.aim is ChangeAim.RESIZE:
            # what the first step took is told under the old number: now or never
            self.progress.flush()
        if not change.failure:
            self.membership.generation = self.dialogue.generation
        self.dialogue.reply(answer(change, self.dialogue, self.progress.steps, self.roster.pids))

    def settle_launch(self) -> None:
        """A member has finished. It was in the group, so all were."""
        change = self.membership.change
        if change is not None and change.aim is ChangeAim.LAUNCH and not self.membership.is_settled:
            self.settle()

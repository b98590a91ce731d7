"""What the head believes a gang to be, and the change of it that is under way.

Whatever breaks while a change is under way ends the change: workers that the head does not know of are
killed, and only then is anything told, because the head takes a device for free as soon as it hears.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum

import msgspec

from swell.executors.gang.member import Member, Roster, Slot, State, flatten
from swell.executors.gang.replies import CommandReplies
from swell.model.event import (
    AnyEvent,
    GangResized,
    GangStarted,
    ResizeFailed,
    SuspendFailed,
    WorkersLost,
)
from swell.model.target import PLAIN_CONFIGURATION, Configuration


class ChangeAim(StrEnum):
    LAUNCH = "LAUNCH"
    RESIZE = "RESIZE"
    SUSPEND = "SUSPEND"


class PendingChange(msgspec.Struct, kw_only=True):
    """A command whose answer is still out."""

    aim: ChangeAim
    since_s: float = 0.0
    failure: str = ""  #: why it is being undone
    lost: tuple[Slot, ...] = ()  #: settled slots that are gone all the same


class Membership(msgspec.Struct, kw_only=True):
    """The gang as the head knows it. A part of its record."""

    slots: tuple[Slot, ...] = ()  #: the settled gang: empty until it has started
    configuration: Configuration = PLAIN_CONFIGURATION  #: of the settled gang
    generation: int = 0  #: that the settled gang trains as
    change: PendingChange | None = None
    is_unheard: bool = False  #: a loss was told, and nothing shows yet that the head has heard of it

    @property
    def is_settled(self) -> bool:
        return bool(self.slots)

    @property
    def is_suspending(self) -> bool:
        return self.change is not None and self.change.aim is ChangeAim.SUSPEND and not self.change.failure

    @property
    def is_growing(self) -> bool:
        """Whether workers that are missing are to be started."""
        return (
            self.change is not None and self.change.aim is not ChangeAim.SUSPEND and not self.change.failure
        )

    def is_informed(self, devices: Collection[str]) -> bool:
        """Whether a resize to these devices was asked for after the head had heard of the latest loss.

        The first that it asks for then is the gang as it is left. Any other was on its way when the loss was
        told: the head has given it up, and takes devices that it names for free.
        """
        self.is_unheard = self.is_unheard and set(devices) != set(flatten(self.slots))
        return not self.is_unheard

    def knows(self, member: Member) -> bool:
        """Whether the head takes the member for one of the gang; before the start all are."""
        return not self.slots or member.slot in self.slots

    def strangers(self, roster: Roster) -> list[Member]:
        return [member for member in roster.members.values() if not self.knows(member)]

    def staying(self, roster: Roster, is_broken: bool) -> tuple[Slot, ...]:
        """The settled slots on which a worker stands that stays.

        Of a broken group those stay, too, that were told to leave it and had not yet.
        """
        going = (State.LEFT,) if is_broken else (State.LEAVING, State.LEFT)
        taken = {member.slot for member in roster.members.values() if member.state not in going}
        return tuple(slot for slot in self.slots if slot in taken)

    def cut_back(self, why: str, roster: Roster, target: tuple[Slot, ...]) -> PendingChange | None:
        """The group broke, and of its workers only those are left that the head knows: what it is to hear, if
        anything. A suspend is still to be carried out, and so is a change to what is left: a repair, or
        another batch.
        """
        lost = self._become(self.staying(roster, is_broken=True))
        change = self.change
        if lost:
            self.is_unheard = True
            if not self.is_suspending:
                self.change = None
            return PendingChange(aim=ChangeAim.RESIZE, failure=why, lost=lost)
        is_of_same = set(target) == set(self.slots)
        if change is None or change.aim is not ChangeAim.RESIZE or (is_of_same and not change.failure):
            return None
        self.change = None
        return PendingChange(aim=ChangeAim.RESIZE, failure=change.failure or why)

    def settle(self, slots: tuple[Slot, ...], configuration: Configuration) -> PendingChange | None:
        """The gang is what it should be: this. Return the change whose answer is due."""
        lost, self.configuration = self._become(slots), configuration
        change, self.change = self.change, None
        if change is not None and change.failure:
            change.lost = lost
            self.is_unheard |= bool(lost)
        return change

    def _become(self, slots: tuple[Slot, ...]) -> tuple[Slot, ...]:
        """The settled gang is this; returns what it no longer has."""
        lost = tuple(slot for slot in self.slots if slot not in slots)
        self.slots = slots
        return lost


def answer(
    change: PendingChange, replies: CommandReplies, steps: int = 0, pids: tuple[int, ...] = ()
) -> AnyEvent:
    """What the head is told of a change that has ended."""
    facts = replies.facts()
    if change.lost:
        return WorkersLost(**facts, devices=flatten(change.lost), message=change.failure)
    if change.failure and change.aim is ChangeAim.SUSPEND:
        return SuspendFailed(**facts, message=change.failure)
    if change.failure:
        return ResizeFailed(**facts, message=change.failure)
    kind = GangStarted if change.aim is ChangeAim.LAUNCH else GangResized
    return kind(**facts, steps=steps, pids=pids)

"""The gang of a job as the head knows it: a value of a type that can hold only what can be.

    NoGang -> LaunchingGang -> SteadyGang -> ChangingGang -> SteadyGang      training
                               SteadyGang -> SavingGang -> NoGang            told to save and leave
                               BrokenGang -> ChangingGang                    lost workers, and goes on without
                         BrokenSavingGang -> SavingGang

A gang that has formed may lose workers in any state, one that has processes may be ended at once
(`EndingGang`), and any may come to its end by itself (`NoGang`). A transition is a method. Where it cannot
be, it raises `IllegalTransition`: a defect of the head, or of its check for reports that come too late
(`fencing`).
"""

from __future__ import annotations

from typing import ClassVar, NoReturn, TypeAlias, TypeVar

import msgspec

from swell.core.phases import IllegalTransition
from swell.model.job import Phase
from swell.model.target import NOTHING, Target

#: (generation, devices) of each loss.
Losses: TypeAlias = tuple[tuple[int, tuple[str, ...]], ...]


class GangState(msgspec.Struct, frozen=True, tag=True, omit_defaults=True, kw_only=True):
    """What can be asked of every gang, and what may happen to it. A state overrides what it allows."""

    phase: ClassVar[Phase]  #: of the gang's job, which has not ended
    is_pinned: ClassVar[bool] = True  #: something is under way that must end before it can change again

    @property
    def members(self) -> Target:
        """What trains, or stands still until it hears how to go on."""
        return NOTHING

    @property
    def goal(self) -> Target:
        """What the gang is to be once the change under way is done; else what it is."""
        return self.members

    @property
    def generation(self) -> int:
        """Generation of the gang's members; 0 before it has any."""
        return 0

    @property
    def losses(self) -> Losses:
        """Workers lost since this generation formed."""
        return ()

    @property
    def held(self) -> tuple[str, ...]:
        """Devices that no other job may have now."""
        return self.members.devices

    @property
    def is_launching(self) -> bool:
        """No generation of the gang trains yet."""
        return False

    @property
    def is_broken(self) -> bool:
        """Workers were lost, and the others wait for the next generation."""
        return False

    @property
    def awaits_change(self) -> bool:
        """A `Reconfigure` is not answered yet."""
        return False

    @property
    def is_reconfigured_in_place(self) -> bool:
        """The same members are to go on in another way, and that is all."""
        return False

    @property
    def is_given_a_share(self) -> bool:
        """All that is to change is its CPU share."""
        return False

    @property
    def is_leaving(self) -> bool:
        """It was told to give up devices, or to say what is left of it, and has not answered."""
        return False

    def launch(self, goal: Target) -> AnyGang:
        """Processes are to be started on these devices."""
        self._refuse("be launched")

    def started(self, generation: int) -> AnyGang:
        """The launch is done."""
        self._refuse("start")

    def ask(self, goal: Target) -> AnyGang:
        """It is to become this."""
        self._refuse("be changed")

    def changed(self, generation: int) -> AnyGang:
        """It is what it was to become."""
        self._refuse("have changed")

    def change_failed(self) -> AnyGang:
        """It stays what it was."""
        self._refuse("have failed to change")

    def lose(self, generation: int, devices: tuple[str, ...]) -> AnyGang:
        """Workers on these devices are gone, and so is a change that was under way."""
        self._refuse("lose workers")

    def save(self) -> AnyGang:
        """It is to write its checkpoint and to leave."""
        self._refuse("be saved")

    def save_failed(self) -> AnyGang:
        """It could not be saved, and stays."""
        self._refuse("have failed to save")

    def end(self) -> AnyGang:
        """It is to end its processes, and to save nothing."""
        self._refuse("be ended")

    def _refuse(self, what: str) -> NoReturn:
        raise IllegalTransition(f"a {type(self).__name__} cannot {what}: {self}")


class NoGang(GangState, frozen=True, kw_only=True):
    """The job has no processes."""

    phase: ClassVar[Phase] = Phase.QUEUED
    is_pinned: ClassVar[bool] = False

    def launch(self, goal: Target) -> AnyGang:
        return LaunchingGang(goal=goal)


class LaunchingGang(GangState, frozen=True, kw_only=True):
    """All workers are being started: it comes up whole, or ends."""

    goal: Target
    phase: ClassVar[Phase] = Phase.STARTING

    @property
    def held(self) -> tuple[str, ...]:
        return self.goal.devices

    @property
    def is_launching(self) -> bool:
        return True

    def started(self, generation: int) -> AnyGang:
        return SteadyGang(generation=generation, members=self.goal)

    def end(self) -> AnyGang:
        return EndingGang(of=self)


class FormedGang(GangState, frozen=True, kw_only=True):
    """Its workers have been in a process group."""

    generation: int
    members: Target
    losses: Losses = ()

    def lose(self, generation: int, devices: tuple[str, ...]) -> AnyGang:
        left = tuple(device for device in self.members.devices if device not in devices)
        members = Target(devices=left, configuration=self.members.configuration)
        losses = (*self.losses, (generation, devices))
        broken = BrokenSavingGang if self.phase is Phase.STOPPING else BrokenGang
        return broken(generation=self.generation, members=members, losses=losses)

    def _as(self, state: type[AnyFormed]) -> AnyFormed:
        """The same workers in another state."""
        return state(generation=self.generation, members=self.members, losses=self.losses)


class SteadyGang(FormedGang, frozen=True, kw_only=True):
    """It trains, and nothing is under way."""

    phase: ClassVar[Phase] = Phase.RUNNING
    is_pinned: ClassVar[bool] = False

    def ask(self, goal: Target) -> AnyGang:
        return _changing(self, goal)

    def save(self) -> AnyGang:
        return self._as(SavingGang)

    def end(self) -> AnyGang:
        return EndingGang(of=self)


class ChangingGang(FormedGang, frozen=True, kw_only=True):
    """It was told to become its goal, and holds the devices of both until it answers."""

    goal: Target
    phase: ClassVar[Phase] = Phase.RUNNING

    @property
    def held(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.members.devices + self.goal.devices))

    @property
    def awaits_change(self) -> bool:
        return True

    @property
    def is_reconfigured_in_place(self) -> bool:
        is_other = self.members.configuration != self.goal.configuration
        return is_other and set(self.members.devices) == set(self.goal.devices) and not self.losses

    @property
    def is_given_a_share(self) -> bool:
        has_batch = self.goal.configuration.trains_as(self.members.configuration)
        return has_batch and self.is_reconfigured_in_place

    @property
    def is_leaving(self) -> bool:
        is_growing = set(self.members.devices) < set(self.goal.devices)
        return not (is_growing or self.is_reconfigured_in_place)

    def changed(self, generation: int) -> AnyGang:
        return SteadyGang(generation=generation, members=self.goal)

    def change_failed(self) -> AnyGang:
        return self._as(SteadyGang)

    def end(self) -> AnyGang:
        return EndingGang(of=self)


class BrokenGang(FormedGang, frozen=True, kw_only=True):
    """It lost workers. Those that are left, if any, wait for the next generation."""

    phase: ClassVar[Phase] = Phase.RUNNING

    @property
    def is_broken(self) -> bool:
        return True

    def ask(self, goal: Target) -> AnyGang:
        return _changing(self, goal)

    def end(self) -> AnyGang:
        return EndingGang(of=self)


class SavingGang(FormedGang, frozen=True, kw_only=True):
    """It was told to write its checkpoint and to leave."""

    phase: ClassVar[Phase] = Phase.STOPPING

    @property
    def is_leaving(self) -> bool:
        return True

    def save_failed(self) -> AnyGang:
        return self._as(SteadyGang)

    def end(self) -> AnyGang:
        return EndingGang(of=self._as(SteadyGang))


class BrokenSavingGang(FormedGang, frozen=True, kw_only=True):
    """It lost workers while it was saved. Those that are left are to be told to save once more."""

    phase: ClassVar[Phase] = Phase.STOPPING

    @property
    def is_broken(self) -> bool:
        return True

    @property
    def is_leaving(self) -> bool:
        return True

    def save(self) -> AnyGang:
        return self._as(SavingGang)

    def save_failed(self) -> AnyGang:
        return self._as(BrokenGang)

    def end(self) -> AnyGang:
        return EndingGang(of=self._as(BrokenGang))


class EndingGang(GangState, frozen=True, kw_only=True):
    """It was told to end. Answers to what it was told before may still come, but none to a save."""

    of: LaunchingGang | SteadyGang | ChangingGang | BrokenGang
    phase: ClassVar[Phase] = Phase.STOPPING

    @property
    def members(self) -> Target:
        return self.of.members

    @property
    def goal(self) -> Target:
        return self.of.goal

    @property
    def generation(self) -> int:
        return self.of.generation

    @property
    def losses(self) -> Losses:
        return self.of.losses

    @property
    def held(self) -> tuple[str, ...]:
        return self.of.held

    @property
    def is_launching(self) -> bool:
        return self.of.is_launching

    @property
    def awaits_change(self) -> bool:
        return self.of.awaits_change

    @property
    def is_reconfigured_in_place(self) -> bool:
        return self.of.is_reconfigured_in_place

    @property
    def is_given_a_share(self) -> bool:
        return self.of.is_given_a_share

    def started(self, generation: int) -> AnyGang:
        return self.of.started(generation).end()

    def changed(self, generation: int) -> AnyGang:
        return self.of.changed(generation).end()

    def change_failed(self) -> AnyGang:
        return self.of.change_failed().end()

    def lose(self, generation: int, devices: tuple[str, ...]) -> AnyGang:
        return self.of.lose(generation, devices).end()


AnyGang: TypeAlias = (
    NoGang
    | LaunchingGang
    | SteadyGang
    | ChangingGang
    | BrokenGang
    | SavingGang
    | BrokenSavingGang
    | EndingGang
)
AnyFormed = TypeVar("AnyFormed", SteadyGang, BrokenGang, SavingGang)

NO_GANG = NoGang()


def _changing(gang: FormedGang, goal: Target) -> ChangingGang:
    return ChangingGang(generation=gang.generation, members=gang.members, losses=gang.losses, goal=goal)

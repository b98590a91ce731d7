"""The gang of a job as the head knows it: one value, and a table of what may become of it.

    none -> launching -> steady -> changing -> steady      training
                         steady -> saving -> none          told to save and leave
                         broken -> changing                lost workers, and goes on without
                  broken saving -> saving

A gang that has formed may lose workers in any state, one that has processes may be ended at once
(`is_ending`), and any may come to its end by itself (`NO_GANG`). A transition is a method. Where it cannot
be, it raises `IllegalTransition`: a defect of the head, or of its check for reports that come too late
(`replan.is_stale`).

Gangs that run and that the journal does not explain have no such state: an older copy of it was put back,
or it was lost, or their jobs have ended without them, after an error of the head. Each is stopped, and
nothing is given its devices before it is gone. Its checkpoints remain: its job, if the head knows it, goes
on from the newest one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, TypeGuard

import msgspec

from swell.model.command import StopGang
from swell.model.event import Event, GangEnded, GangFound, GangSuspended
from swell.model.job import Phase
from swell.model.target import NOTHING, Target

#: (generation, devices) of each loss.
Losses: TypeAlias = tuple[tuple[int, tuple[str, ...]], ...]
State = Literal["none", "launching", "steady", "changing", "broken", "saving", "broken saving"]

#: Phase of a job that has not ended, by the state of its gang; where the gang is ending it is STOPPING.
PHASES: Mapping[State, Phase] = {
    "none": Phase.QUEUED,
    "launching": Phase.STARTING,
    "steady": Phase.RUNNING,
    "changing": Phase.RUNNING,
    "broken": Phase.RUNNING,
    "saving": Phase.STOPPING,
    "broken saving": Phase.STOPPING,
}
#: What may happen to a gang: by the state that it is in, the one that follows.
TRANSITIONS: Mapping[str, Mapping[State, State]] = {
    "be launched": {"none": "launching"},
    "start": {"launching": "steady"},
    "be changed": {"steady": "changing", "broken": "changing"},
    "have changed": {"changing": "steady"},
    "have failed to change": {"changing": "steady"},
    "lose workers": {
        "steady": "broken",
        "changing": "broken",
        "broken": "broken",
        "saving": "broken saving",
        "broken saving": "broken saving",
    },
    "be saved": {"steady": "saving", "broken saving": "saving"},
    "have failed to save": {"saving": "steady", "broken saving": "broken"},
    "be ended": {
        "launching": "launching",
        "steady": "steady",
        "changing": "changing",
        "broken": "broken",
        "saving": "steady",
        "broken saving": "broken",
    },
}
#: What a gang may still meet with that is ending: answers to what it was told before, but none to a save.
STILL = frozenset(["start", "have changed", "have failed to change", "lose workers"])


class IllegalTransition(RuntimeError):
    """A defect of the head: no event may lead from the one state to the other."""


class Gang(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Members stand still while the gang is broken, until they hear how to go on."""

    state: State = "none"
    is_ending: bool = False  #: it was told to end its processes, and to save nothing
    members: Target = NOTHING  #: what trains
    goal: Target = NOTHING  #: what the gang is to be once the change under way is done; else what it is
    generation: int = 0  #: of the members; 0 before there are any
    losses: Losses = ()  #: workers lost since this generation formed

    @property
    def phase(self) -> Phase:
        """Phase of the gang's job, which has not ended."""
        return Phase.STOPPING if self.is_ending else PHASES[self.state]

    @property
    def is_pinned(self) -> bool:
        """Something is under way that must end before it can change again."""
        return self.is_ending or self.state not in ("none", "steady")

    @property
    def held(self) -> tuple[str, ...]:
        """Devices that no other job may have now: of a changing gang, those before and after."""
        if self.state == "launching":
            return self.goal.devices
        if self.state == "changing":
            return tuple(dict.fromkeys(self.members.devices + self.goal.devices))
        return self.members.devices

    @property
    def is_launching(self) -> bool:
        """No generation of the gang trains yet: it comes up whole, or ends."""
        return self.state == "launching"

    @property
    def is_broken(self) -> bool:
        """Workers were lost, and the others, if any are left, wait for the next generation."""
        return not self.is_ending and self.state in ("broken", "broken saving")

    @property
    def is_saving(self) -> bool:
        """It was told to write its checkpoint and to leave, even if it has lost workers since."""
        return self.state in ("saving", "broken saving")

    @property
    def awaits_change(self) -> bool:
        """A `Reconfigure` is not answered yet."""
        return self.state == "changing"

    @property
    def is_reconfigured_in_place(self) -> bool:
        """The same members are to go on in another way, and that is all."""
        if self.state != "changing" or self.losses:
            return False
        is_other = self.members.configuration != self.goal.configuration
        return is_other and set(self.members.devices) == set(self.goal.devices)

    @property
    def is_given_a_share(self) -> bool:
        """All that is to change is its CPU share."""
        is_same = self.is_reconfigured_in_place
        return is_same and self.goal.configuration.trains_as(self.members.configuration)

    @property
    def is_leaving(self) -> bool:
        """It was told to give up devices, or to say what is left of it, and has not answered."""
        if self.is_ending or self.state != "changing":
            return not self.is_ending and self.is_saving
        is_growing = set(self.members.devices) < set(self.goal.devices)
        return not (is_growing or self.is_reconfigured_in_place)

    def launch(self, goal: Target) -> Gang:
        """Processes are to be started on these devices."""
        return self._after("be launched", goal=goal)

    def started(self, generation: int) -> Gang:
        """The launch is done."""
        return self._after("start", generation=generation, members=self.goal)

    def ask(self, goal: Target) -> Gang:
        """It is to become this."""
        return self._after("be changed", goal=goal)

    def changed(self, generation: int) -> Gang:
        """It is what it was to become."""
        return self._after("have changed", generation=generation, members=self.goal, losses=())

    def change_failed(self) -> Gang:
        """It stays what it was."""
        return self._after("have failed to change", goal=self.members)

    def lose(self, generation: int, devices: tuple[str, ...]) -> Gang:
        """Workers on these devices are gone, and so is a change that was under way."""
        left = tuple(device for device in self.members.devices if device not in devices)
        members = Target(devices=left, configuration=self.members.configuration)
        losses = (*self.losses, (generation, devices))
        return self._after("lose workers", members=members, goal=members, losses=losses)

    def save(self) -> Gang:
        """It is to write its checkpoint and to leave."""
        return self._after("be saved")

    def save_failed(self) -> Gang:
        """It could not be saved, and stays."""
        return self._after("have failed to save")

    def end(self) -> Gang:
        """It is to end its processes, and to save nothing."""
        return self._after("be ended", is_ending=True)

    def _after(self, what: str, **changes: Any) -> Gang:
        state = TRANSITIONS[what].get(self.state)
        if state is None or (self.is_ending and what not in STILL):
            raise IllegalTransition(f"a gang that is {self.state} cannot {what}: {self}")
        return msgspec.structs.replace(self, state=state, **changes)


#: The job has no processes.
NO_GANG = Gang()


#: What is heard of a gang that the journal does not explain.
UnknownGangEvent = GangFound | GangEnded | GangSuspended


class UnknownGang(msgspec.Struct, kw_only=True):
    """One that was found, and is told to end."""

    job_id: str
    found: int  #: the generation that it had when it was found
    devices: tuple[str, ...]
    formed: int | None = None  #: the earliest generation whose end is its own; None: `found`
    is_told: bool = False  #: the command that ends it was given

    @property
    def generation(self) -> int:
        """Generation of the command that ends the gang."""
        return self.found + 1

    def command(self) -> StopGang:
        """The one that ends it."""
        return StopGang(job_id=self.job_id, generation=self.generation)


class UnknownGangs(msgspec.Struct):
    """Gangs that the journal does not explain."""

    gangs: dict[str, UnknownGang] = {}  #: by job; no job has two

    @property
    def owner(self) -> dict[str, str]:
        """Device -> the job whose gang holds it."""
        return {device: gang.job_id for gang in self.gangs.values() for device in gang.devices}

    def concerns(self, event: Event) -> TypeGuard[UnknownGangEvent]:
        """Whether `hear` is to be told; other reports of such a gang are of no interest."""
        if isinstance(event, GangFound):
            return True
        if not self.gangs or not isinstance(event, GangEnded | GangSuspended):
            return False
        gang = self.gangs.get(event.job_id)
        if gang is None:
            return False
        formed = gang.found if gang.formed is None else gang.formed
        return formed <= event.generation <= gang.generation

    def hear(self, event: UnknownGangEvent) -> None:
        if isinstance(event, GangFound):
            known = self.gangs.get(event.job_id)
            if known is None or event.generation > known.generation:
                self.gangs[event.job_id] = UnknownGang(
                    job_id=event.job_id, found=event.generation, devices=event.devices
                )
        else:
            del self.gangs[event.job_id]

    def commands(self) -> list[StopGang]:
        """What is to be said now."""
        untold = [gang for gang in self.gangs.values() if not gang.is_told]
        for gang in untold:
            gang.is_told = True
        return [gang.command() for gang in untold]

"""The gang of a job as the head knows it: one value, and a table of what may become of it.

    none -> launching -> steady -> changing -> steady      training
                         steady -> saving -> none          told to save and leave
                         broken -> changing                lost workers, and goes on without
                  broken saving -> saving

A gang that has formed may lose workers in any state, one that has processes may be ended at once
(`is_ending`), and any may come to its end by itself (`NO_GANG`). A transition is a method. Where it cannot
be, it raises `IllegalTransition`: a defect of the head, or of its check for reports that come too late
(`fencing`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import msgspec

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

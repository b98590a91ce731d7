"""Gangs that run and that the journal does not explain: an older copy of it was put back, or it was lost.

Or their jobs have ended without them, after an error of the head. Each is stopped, and nothing is given its
devices before it is gone. Its checkpoints remain: its job, if the head knows it, goes on from the newest one.
"""

from __future__ import annotations

from typing import TypeGuard

import msgspec

from swell.model.command import StopGang
from swell.model.event import Event, GangEnded, GangFound, GangSuspended

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

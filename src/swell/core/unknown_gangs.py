"""Gangs that run and that the journal does not explain: an older copy of it was put back, or it was lost.

Or their jobs have ended without them, after an error of the head. Each is saved and ended, and nothing is
given its devices before it is gone. Its job, if the head knows it, goes on from the checkpoint. A gang that
does not end its step in time is stopped.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeGuard

import msgspec

from swell.model.command import StopGang, SuspendGang
from swell.model.event import Event, GangEnded, GangFound, GangSuspended, SuspendFailed

#: What is heard of a gang that the journal does not explain.
UnknownGangEvent = GangFound | GangEnded | GangSuspended | SuspendFailed


class UnknownGang(msgspec.Struct, kw_only=True):
    """One that was found, and is told to end."""

    job_id: str
    found: int  #: the generation that it had when it was found
    devices: tuple[str, ...]
    formed: int | None = None  #: the earliest generation whose end is its own; None: `found`
    asked_s: float | None = None  #: when it was told to save and end; None: it has yet to be
    is_stopping: bool = False  #: it is to end without saving

    @property
    def generation(self) -> int:
        """Generation of the command that ends the gang."""
        return self.found + 1

    def command(self) -> StopGang | SuspendGang:
        """The one that is out."""
        kind = StopGang if self.is_stopping else SuspendGang
        return kind(job_id=self.job_id, generation=self.generation)


class UnknownGangs:
    """Gangs that the journal does not explain, by job; no job has two."""

    def __init__(self, gangs: Mapping[str, UnknownGang] | None = None) -> None:
        self.gangs: dict[str, UnknownGang] = dict(gangs or {})

    @property
    def owner(self) -> dict[str, str]:
        """Device -> the job whose gang holds it."""
        return {device: gang.job_id for gang in self.gangs.values() for device in gang.devices}

    def concerns(self, event: Event) -> TypeGuard[UnknownGangEvent]:
        """Whether `hear` is to be told; other reports of such a gang are of no interest."""
        if isinstance(event, GangFound):
            return True
        if not self.gangs or not isinstance(event, GangEnded | GangSuspended | SuspendFailed):
            return False
        gang = self.gangs.get(event.job_id)
        if gang is None:
            return False
        formed = gang.found if gang.formed is None else gang.formed
        if not formed <= event.generation <= gang.generation:
            return False
        return not (isinstance(event, SuspendFailed) and gang.is_stopping)

    def add(self, gang: UnknownGang) -> None:
        """Take a gang in that the head does not follow any longer."""
        self.gangs[gang.job_id] = gang

    def hear(self, event: UnknownGangEvent) -> None:
        if isinstance(event, GangFound):
            known = self.gangs.get(event.job_id)
            if known is None or event.generation > known.generation:
                self.gangs[event.job_id] = UnknownGang(
                    job_id=event.job_id, found=event.generation, devices=event.devices
                )
        elif isinstance(event, SuspendFailed):
            self.gangs[event.job_id].is_stopping, self.gangs[event.job_id].asked_s = True, None
        else:
            del self.gangs[event.job_id]

    def commands(self, now_s: float, yield_s: float) -> list[StopGang | SuspendGang]:
        """What is to be said now."""
        commands: list[StopGang | SuspendGang] = []
        for gang in self.gangs.values():
            if gang.asked_s is not None and not gang.is_stopping and now_s >= gang.asked_s + yield_s:
                gang.is_stopping, gang.asked_s = True, None
            if gang.asked_s is None:
                gang.asked_s = now_s
                commands.append(gang.command())
        return commands

    def due_s(self, yield_s: float) -> float:
        """When `commands` has more to say, if no event comes before."""
        saving = [gang.asked_s for gang in self.gangs.values() if not gang.is_stopping]
        return min((asked_s + yield_s for asked_s in saving if asked_s is not None), default=math.inf)

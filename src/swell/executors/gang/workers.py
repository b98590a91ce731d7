"""The processes of a gang's workers: which are started, and which are sent a signal."""

from __future__ import annotations

import signal
from collections.abc import Iterable
from dataclasses import dataclass

from swell.executors.gang.effects import Effect, Kill, Spawn
from swell.executors.gang.member import Member, Roster, Slot

#: To a worker, and to all that it has started.
KILL = int(signal.SIGKILL)


@dataclass(slots=True)
class Workers:
    """Spawns and kills go to `effects`, whose owner hands them on."""

    roster: Roster
    effects: list[Effect]
    next_number: int
    has_started: bool = False  #: a worker was started

    def start(self, slot: Slot, now_s: float) -> None:
        member = Member(self.next_number, slot, since_s=now_s)
        self.next_number += 1
        self.has_started = True
        self.roster.members[member.number] = member
        self.effects.append(Spawn(member.number, slot))

    def kill(self, members: Iterable[Member], why: str = "") -> None:
        for member in members:
            if not member.is_killed:
                member.is_killed = True
                member.failure = member.failure or why
                self.effects.append(Kill(member.number, signal.SIGKILL))

    def terminate(self, members: Iterable[Member]) -> None:
        self.effects += [Kill(member.number, signal.SIGTERM) for member in members]

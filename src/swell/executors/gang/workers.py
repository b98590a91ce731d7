"""The processes of a gang's workers: which are started, and which are sent a signal."""

from __future__ import annotations

import signal
from collections.abc import Iterable

from swell.executors.gang.effects import Kill, Spawn
from swell.executors.gang.member import Member, Slot
from swell.executors.gang.runtime import GangRuntime

#: To a worker, and to all that it has started.
KILL = int(signal.SIGKILL)


def start(live: GangRuntime, slot: Slot) -> None:
    gang = live.gang
    number, gang.next_worker, gang.has_spawned = gang.next_worker, gang.next_worker + 1, True
    live.members[number] = Member(number, slot, since_s=live.now_s)
    live.effects.append(Spawn(number, slot))


def kill(live: GangRuntime, members: Iterable[Member], why: str = "") -> None:
    for member in members:
        if not member.is_killed:
            member.is_killed = True
            member.failure = member.failure or why
            live.effects.append(Kill(member.number, signal.SIGKILL))


def terminate(live: GangRuntime, members: Iterable[Member]) -> None:
    live.effects += [Kill(member.number, signal.SIGTERM) for member in members]


def forget(live: GangRuntime, number: int) -> Member | None:
    """Take a worker that has ended out of the gang; None: it was not in it."""
    return live.members.pop(number, None)

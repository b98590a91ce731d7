"""One worker of a gang, as its controller sees it, and its devices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from swell.wire.messages import Alive

Slot = tuple[str, ...]  #: the devices of one worker


class State(Enum):
    STARTING = auto()  #: forked, or about to be; the script is on its way to `swell.train.elastic`
    READY = auto()  #: waits for its first group
    FORMING = auto()  #: told to join a group; a newer order takes the place of the one it has
    TRAINING = auto()  #: in the group, with the state
    BROKEN = auto()  #: its group failed; waits
    LEAVING = auto()  #: told to leave at the next step boundary
    LEFT = auto()  #: out of every group; exits


#: States in which a member takes part in the steps of the group that it is in.
IN_STEP = (State.TRAINING, State.LEAVING)


@dataclass(slots=True)
class Member:
    """A worker from its spawn to its exit."""

    number: int
    slot: Slot
    since_s: float  #: spawned then
    state: State = State.STARTING
    pid: int | None = None
    heard_s: float | None = None  #: None: not connected yet
    heartbeat: Alive | None = None  #: what it last said of its main thread
    steps: int = 0
    has_state: bool = False  #: was in a group, so it knows parameters worth sending
    whole_round: int | None = None  #: the group it is in, while it has not called it broken
    failure: str = ""  #: why it failed, or why it had to be killed
    is_at_fault: bool = False  #: the script failed, not the process
    left_s: float | None = None
    is_killed: bool = False  #: by us: SIGKILL is on its way
    is_stopped: bool = False  #: its process, by a signal

    @property
    def busy_s(self) -> float:
        """Its script has made no step and come to no collective for so long."""
        return self.heartbeat.for_s if self.heartbeat is not None and not self.heartbeat.awaits else 0.0

    @property
    def waits_s(self) -> float:
        """It has been waiting for others for so long."""
        return self.heartbeat.for_s if self.heartbeat is not None and self.heartbeat.awaits else 0.0


def cut_slots(devices: Sequence[str], devices_per_worker: int, kept: Iterable[Slot]) -> tuple[Slot, ...]:
    """One slot a worker: those of `kept` whose devices are all there, then neighbours of what remains."""
    there = set(devices)
    whole = [slot for slot in kept if there.issuperset(slot)]
    taken = {device for slot in whole for device in slot}
    rest = [device for device in devices if device not in taken]
    if len(rest) % devices_per_worker:
        raise ValueError(f"{len(devices)} devices cannot be shared out by {devices_per_worker} to a worker")
    cut = [tuple(rest[i : i + devices_per_worker]) for i in range(0, len(rest), devices_per_worker)]
    position = {device: i for i, device in enumerate(devices)}
    return tuple(sorted((*whole, *cut), key=lambda slot: position[slot[0]]))


def best_source(group: Sequence[Member]) -> int | None:
    """The rank that has come furthest; None if none has any state."""
    ranks = [rank for rank, member in enumerate(group) if member.has_state]
    return max(ranks, key=lambda rank: (group[rank].steps, -rank), default=None)


def flatten(slots: Iterable[Slot]) -> tuple[str, ...]:
    return tuple(device for slot in slots for device in slot)
